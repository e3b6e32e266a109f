//! `resurgam demo`: orders, a payment service in trouble, a crash, and what is left of it.
//!
//! It is a program as a user would write one ([`order`], [`payment`]), watched through the client
//! as anybody could ([`view`], [`screen`]). Whether the promise held is not asserted but checked
//! ([`journal`], [`records`], [`audit`]).

mod audit;
mod batch;
mod crash;
mod journal;
mod order;
mod payment;
mod records;
mod report;
mod screen;
mod serve;
mod shop;
mod trouble;
mod view;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use resurgam::{Client, Code, InstanceRow, Owner};

use crate::exit::Exit;
use crate::signals::Signals;
use crate::style;
use audit::Audit;
use batch::Work;
use crash::Farewell;
use journal::Journal;
use report::{Activity, Orders, Report, Tally, count};
use screen::Screen;
use shop::Shop;
use trouble::Trouble;
use view::View;

const EXIT_CODES: &str = "\
Exit codes:
  0    all orders are done, and nothing that was done ran again
  1    the journal does not fit the histories, or something unexpected failed
  2    the file cannot be used, or the command line is not acceptable
  130  stopped by Ctrl-C or SIGTERM; the orders stay in the file";

/// How often the orders are looked at.
const TICK: Duration = Duration::from_millis(100);

/// Fulfil orders with a flaky payment service, crash, and go on
///
/// Each order reserves its items, charges a card, ships and notifies. The payment service times
/// out, answers 503 and 429, and declines a card; watch the retries.
///
///   resurgam demo --crash    kills itself half-way (SIGKILL)
///   resurgam demo            goes on where that one was, and checks that nothing done ran again
///   resurgam demo --serve    goes on until it is stopped, for the browser
///
/// Everything is in one SQLite file; beside it, FILE.journal has a line for each attempt that
/// began. Delete both to begin anew.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_help = EXIT_CODES)]
pub(crate) struct Args {
    /// How many orders to start, unless some are unfinished; with --serve, how many are open at
    /// most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    orders: u32,
    /// The SQLite file; resurgam-demo.db unless given, and resurgam-demo-serve.db with --serve
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
    /// Serve the dashboard at this port of this machine, 8460 unless given, while orders come in
    /// one after another; a switch on its pages turns the payment gateway off and on
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "8460",
          conflicts_with_all = ["crash", "json", "plain"])]
    serve: Option<u16>,
    /// Kill this process when half of the orders are done
    #[arg(long)]
    crash: bool,
    /// Print one JSON value at the end, and nothing else
    #[arg(long)]
    json: bool,
    /// Print a line for each thing that happens, without colours, in place of a live view
    #[arg(long)]
    plain: bool,
    /// Not for this command, which says so.
    #[arg(long, value_name = "URL", hide = true)]
    server: Option<String>,
    /// How many times faster than life; for tests
    #[arg(long, hide = true, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    speed: u32,
}

impl Args {
    fn db(&self) -> &Path {
        self.db.as_deref().unwrap_or(Path::new("resurgam-demo.db"))
    }
}

/// How watching the orders ended.
enum Watched {
    AllDone(Vec<InstanceRow>),
    /// Somebody wants us to end.
    Stop,
}

/// Runs the demo. The error is one of printing.
pub(crate) fn run(args: &Args) -> io::Result<Exit> {
    if args.server.is_some() {
        let what =
            "`resurgam demo` makes a database of its own and asks no server; leave out --server";
        writeln!(anstream::stderr(), "{0}error:{0:#} {1} {what}", style::ERROR, Code::C1)?;
        return Ok(Exit::BadInput);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let demo = async {
        match args.serve {
            Some(port) => serve::serve(args, port).await,
            None => demo(args).await,
        }
    };
    match runtime.block_on(demo) {
        Ok(exit) => Ok(exit),
        Err(trouble) => {
            let (text, exit) = trouble.end()?;
            writeln!(anstream::stderr(), "{0}error:{0:#} {text}", style::ERROR)?;
            Ok(exit)
        }
    }
}

async fn demo(args: &Args) -> Result<Exit, Trouble> {
    let begun = Instant::now();
    let mut signals = Signals::new().map_err(|error| Trouble::Failed(error.to_string()))?;
    let journal = Journal::beside(args.db());
    let shop = Shop::new(journal.clone(), args.speed, args.crash);
    let app = order::app(shop.clone(), args.speed, order::policy(args.speed));
    let app = app.sqlite(args.db()).await;
    let app = app.map_err(|error| Trouble::Refused(format!("{error:?}")))?;
    let mut screen = Screen::new(args.json, args.plain, app.handle().now());

    let work = Work::find(&app, &journal, args.orders).await?;
    if args.crash {
        shop.brink.allow(work.open / 2);
    }
    let owner = app.owner().await?.filter(|_| !app.is_owner());
    let run = Run { args, client: app.clone(), journal, shop, work, begun, owner };
    screen.say(&run.introduction())?;
    let watched = run.watch(&mut screen, &mut signals).await?;
    screen.clear()?;
    match watched {
        Watched::AllDone(orders) => {
            let report = run.report(&orders).await?;
            app.stop().await?;
            run.finish(&screen, &report)
        }
        Watched::Stop => {
            app.stop().await?;
            run.stopped(&screen).await
        }
    }
}

/// One run of the demo.
struct Run<'a> {
    args: &'a Args,
    client: Client,
    journal: Journal,
    shop: Shop,
    work: Work,
    begun: Instant,
    /// Another process that works on the file.
    owner: Option<Owner>,
}

impl Run<'_> {
    /// What the run is about.
    fn introduction(&self) -> String {
        let Work { batch, open, taken_up } = self.work;
        if let Some(owner) = &self.owner {
            let db = self.args.db().display();
            return format!(
                "{owner} works on {db}; this process shows its orders, and takes over if it \
                 dies.\n\n"
            );
        }
        if taken_up {
            let were = if open == 1 { "order was" } else { "orders were" };
            let of = format!("{open} of {} {were}", batch.size);
            return format!("{of} left unfinished by an earlier demo; going on.\n\n");
        }
        let (orders, db) = (count(open, "order"), self.args.db().display());
        let end = match self.args.crash {
            true => "This process kills itself half-way: then run the demo again, without --crash.",
            false => "Ctrl-C stops, --crash kills this process half-way: the next demo goes on.",
        };
        format!(
            "{orders}, durable in {db}: reserve, charge, ship, notify.\n\
             The payment service times out, answers 503 and 429, and declines a card.\n{end}\n\n"
        )
    }

    /// Shows the orders until all are done, somebody wants us to end, or we crash.
    async fn watch(&self, screen: &mut Screen, signals: &mut Signals) -> Result<Watched, Trouble> {
        let tick = (TICK / self.args.speed).max(Duration::from_millis(10));
        loop {
            let view = View::of(&self.client, self.work.batch).await?;
            screen.show(&view)?;
            if view.open.is_empty() {
                return Ok(Watched::AllDone(view.orders));
            }
            if let Some(why) = view.blocked() {
                return Err(Trouble::Failed(why));
            }
            if self.args.crash && view.open.len() <= self.work.open.div_ceil(2) {
                self.shop.brink.crash(self.farewell(&view));
            }
            tokio::select! {
                () = tokio::time::sleep(tick) => {}
                () = signals.wait() => return Ok(Watched::Stop),
            }
        }
    }

    fn farewell(&self, view: &View) -> Farewell {
        let (done, all) = (view.done(), view.orders.len());
        let text = format!(
            "{0}{done} of {all} orders are done: killing this process (SIGKILL).{0:#} \
             Run the demo again.",
            style::WARNING
        );
        Farewell { text, json: self.args.json }
    }

    /// Says what is left after an orderly end. Some orders were finished within the grace period.
    async fn stopped(&self, screen: &Screen) -> Result<Exit, Trouble> {
        let open = View::of(&self.client, self.work.batch).await?.open.len();
        let (orders, stay) = (count(open, "order"), if open == 1 { "stays" } else { "stay" });
        let db = self.args.db();
        let left = format!("{orders} {stay} in {}", db.display());
        screen.say(&format!("Stopped: {left}; the next demo goes on.\n"))?;
        if self.args.json {
            let stopped = serde_json::json!({"db": db, "stopped": true, "unfinished": open});
            writeln!(io::stdout(), "{stopped}")?;
        }
        Ok(Exit::Stopped)
    }

    /// Reads what was written down about the orders, and compares it with the journal.
    async fn report(&self, orders: &[InstanceRow]) -> Result<Report, Trouble> {
        let elapsed = self.begun.elapsed();
        let calls = records::calls(&self.client, orders).await?;
        let lines = self.journal.read().map_err(|error| {
            Trouble::Failed(format!("read {}: {error}", self.journal.path().display()))
        })?;
        Ok(Report {
            db: self.args.db().to_path_buf(),
            journal: self.journal.path().to_path_buf(),
            taken_up: if self.work.taken_up { self.work.open } else { 0 },
            elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            orders: Orders::of(orders, &calls),
            attempts: Tally::of(calls.iter()),
            activities: Activity::all(&calls),
            audit: Audit::of(&lines, &calls),
        })
    }

    fn finish(&self, screen: &Screen, report: &Report) -> Result<Exit, Trouble> {
        screen.say(&report.text())?;
        if !self.work.taken_up {
            screen.say("\nNow run it with --crash, and then once more without.\n")?;
            screen.say("Or watch orders in the browser: resurgam demo --serve\n")?;
        }
        if self.args.json {
            let json = serde_json::to_string_pretty(report).map_err(io::Error::from)?;
            writeln!(io::stdout(), "{json}")?;
        }
        match report.audit.problems.is_empty() {
            true => Ok(Exit::Done),
            false => Ok(Exit::Unexpected),
        }
    }
}
