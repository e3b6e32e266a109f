//! `resurgam demo --serve`: the demo without an end, to be watched in the browser.
//!
//! Orders come in one after another, slowly enough to follow each. The payment gateway has a
//! switch on every page: while it is off all charges fail, their waits grow, and in the end they
//! are paused until somebody decides. Whoever watches does what operators do.

use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use resurgam::{Client, InstanceFilter, Status};
use resurgam_server::{Api, Options, Switch};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::journal::Journal;
use super::order::{self, Argument, Batch, Order};
use super::shop::Shop;
use super::trouble::Trouble;
use super::{Args, report};
use crate::exit::Exit;
use crate::signals::Signals;

/// The file unless one is named: not the one of the demo that ends, which checks all of its orders.
const FILE: &str = "resurgam-demo-serve.db";

/// How long it is between two orders.
const PAUSE: Duration = Duration::from_secs(3);

/// Orders meet their trouble by their places among so many.
const ROUND: u32 = 20;

/// Serves until told to stop.
pub(super) async fn serve(args: &Args, port: u16) -> Result<Exit, Trouble> {
    let mut signals = Signals::new().map_err(|error| Trouble::Failed(error.to_string()))?;
    let db = args.db.clone().unwrap_or_else(|| PathBuf::from(FILE));
    let gateway = Switch::new("payment gateway");
    let shop = Shop::new(Journal::beside(&db), args.speed, false).behind(&gateway);
    let app = order::app(shop, args.speed, order::patient(args.speed)).sqlite(&db).await;
    let app = app.map_err(|error| Trouble::Refused(format!("{error:?}")))?;
    let client: Client = app.clone();
    let refused = |error: io::Error| Trouble::Refused(format!("--serve {port}: {error}"));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(refused)?;
    let address = listener.local_addr()?;
    let api = Api::new(&app, Options::default().open().switch(&gateway));
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(resurgam_server::serve(listener, api, async {
        // A demo that is dropped stops as well.
        let _stopped = stopped.await;
    }));
    writeln!(
        io::stdout(),
        "Open http://{address}/ in a browser. Orders come in: reserve, charge, ship, notify.\n\
         Turn the payment gateway off at the top of the page, and see what fails, since when, and when\n\
         it is tried again. Turn it on, and retry what waits; what ran out of attempts is in the inbox.\n\
         Ctrl-C stops; the orders stay in {}.",
        db.display()
    )?;
    let ended = tokio::select! {
        () = signals.wait() => Ok(()),
        trouble = take_orders(&client, args) => trouble,
    };
    // It may have ended by itself.
    let _unless_ended = stop.send(());
    serving.await.map_err(io::Error::other)??;
    app.stop().await?;
    ended?;
    let open = open(&client, usize::MAX).await?;
    let stay = if open == 1 { "stays" } else { "stay" };
    writeln!(io::stdout(), "Stopped: {} {stay} open.", report::count(open, "order"))?;
    Ok(Exit::Stopped)
}

/// Starts one order after another, as long as few enough are open. Ends with trouble only.
async fn take_orders(client: &Client, args: &Args) -> Result<(), Trouble> {
    let mut number = newest(client).await? + 1;
    loop {
        if open(client, args.orders as usize).await? < args.orders as usize {
            let batch = Batch { first: number - (number - 1) % ROUND, size: ROUND };
            let order = Order::of(batch, number);
            client.start(order.id(), order::fulfil(order)).await?;
            number += 1;
        }
        tokio::time::sleep(PAUSE / args.speed).await;
    }
}

/// The number of the newest order in the file; 0 without any.
async fn newest(client: &Client) -> Result<u32, Trouble> {
    let workflow = Some(order::NAME.to_string());
    let filter = InstanceFilter { workflow, limit: 1, ..InstanceFilter::default() };
    let Some(row) = client.list(filter).await?.pop() else { return Ok(0) };
    let argument = row.input.decode::<Argument>();
    argument.map(|it| it.order.number).map_err(|error| {
        let text = "was written by another version of the demo; give --db another file";
        Trouble::Refused(format!("{} {text} ({error})", row.id))
    })
}

/// How many orders are open, up to so many.
async fn open(client: &Client, limit: usize) -> Result<usize, Trouble> {
    let workflow = Some(order::NAME.to_string());
    let status = vec![Status::Running, Status::Paused, Status::Blocked];
    let filter = InstanceFilter { workflow, status, limit, ..InstanceFilter::default() };
    Ok(client.list(filter).await?.len())
}
