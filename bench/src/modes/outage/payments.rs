//! The calls of the drill: an activity that asks the gateway, and the app that has it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use resurgam::AppBuilder;
use resurgam::gate::{Breaker, Gate};
use resurgam::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What an answer of the gateway may look like at most.
const LONGEST: usize = 1_024;

/// The policy of the drill: five attempts within a quarter of a minute.
const PAY: RetryPolicy = RetryPolicy::exponential(Duration::from_secs(1))
    .max_attempts(5)
    .max_delay(Duration::from_secs(30));

/// Connections to the gateway that nobody uses at the moment.
#[derive(Clone, Debug)]
struct Connections {
    gateway: SocketAddr,
    idle: Arc<Mutex<Vec<TcpStream>>>,
}

impl Connections {
    /// Asks for a payment and answers with the status.
    async fn pay(&self, payment: u64) -> std::io::Result<u16> {
        let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection = match kept {
            Some(connection) => connection,
            None => TcpStream::connect(self.gateway).await?,
        };
        connection.set_nodelay(true)?;
        let request = format!("POST /payments/{payment} HTTP/1.1\r\nHost: gateway\r\n\r\n");
        connection.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            if answer.len() > LONGEST || connection.read_buf(&mut answer).await? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
        let text = String::from_utf8_lossy(&answer);
        let status = text.split_ascii_whitespace().nth(1).and_then(|status| status.parse().ok());
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        status.ok_or_else(|| std::io::ErrorKind::InvalidData.into())
    }
}

/// Makes a payment.
#[activity(retry = PAY, timeout = Duration::from_secs(2))]
pub(crate) async fn pay(ctx: ActivityContext, payment: u64) -> Result<(), Failure> {
    match ctx.state::<Connections>().pay(payment).await? {
        200 => Ok(()),
        status => {
            Err(Failure::new(format!("the gateway answered {status}")).with_type("Unavailable"))
        }
    }
}

/// How many payments a node makes at once.
pub(crate) fn slots() -> usize {
    let mut slots = 0;
    let _builder = App::builder().options(|options| slots = options.slots);
    slots
}

/// The gateway, and whether a gate stands before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dependency {
    pub(crate) address: SocketAddr,
    pub(crate) gate: bool,
}

/// An app that makes payments at this gateway.
pub(crate) fn builder(gateway: Dependency) -> AppBuilder {
    let connections = Connections { gateway: gateway.address, idle: Arc::default() };
    let builder = App::builder().activity(pay).state(connections);
    match gateway.gate {
        true => builder.gate("pay", Gate::new().breaker(Breaker::new())),
        false => builder,
    }
}
