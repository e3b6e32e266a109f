//! The dependency of the drill: a gateway that speaks HTTP and serves so many requests a second.
//!
//! It serves one request after another. What waits longer than its patience is refused, and that
//! takes a part of the time that serving takes: a gateway under too many requests serves fewer.
//! While it is out it refuses everything. It is a process of its own, which is told `out` and
//! `back` on its standard input and prints what it saw, a line each second; it ends with its input.

use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{self, Instant};

use crate::Result;

/// How long a request may wait to be served.
const PATIENCE: Duration = Duration::from_millis(500);

/// What a request may look like at most.
const LONGEST: usize = 1_024;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many requests it serves in a second.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    capacity: u32,
    /// What refusing a request costs, where serving it costs 1.
    #[arg(long)]
    refusal: f64,
}

/// What the gateway saw in one second, and what it has seen in all.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Seen {
    /// Requests that came.
    pub(crate) offered: u64,
    /// Those of them that were served.
    pub(crate) served: u64,
    /// How many different payments were made so far.
    pub(crate) paid: u64,
    /// How many requests were served whose payment had been made before.
    pub(crate) repeated: u64,
    /// How long after the end of the outage the first request was served.
    pub(crate) found_ms: Option<u64>,
}

/// What the gateway knows.
#[derive(Debug)]
struct Gateway {
    serving: Duration,
    refusing: Duration,
    /// When everything that it has accepted is served.
    busy_until: Instant,
    is_out: bool,
    /// When the outage ended.
    back: Option<Instant>,
    /// Which payments were made, by their numbers.
    paid: Vec<bool>,
    seen: Seen,
}

impl Gateway {
    fn new(capacity: u32, refusal: f64) -> Self {
        let serving = Duration::from_secs(1) / capacity;
        Gateway {
            serving,
            refusing: Duration::try_from_secs_f64(serving.as_secs_f64() * refusal)
                .unwrap_or_default(),
            busy_until: Instant::now(),
            is_out: false,
            back: None,
            paid: Vec::new(),
            seen: Seen::default(),
        }
    }

    /// A request has come: when it is served, `None` when it is refused.
    fn take(&mut self, payment: usize, now: Instant) -> Option<Instant> {
        self.seen.offered += 1;
        if self.is_out {
            return None;
        }
        self.busy_until = self.busy_until.max(now);
        if self.busy_until.duration_since(now) > PATIENCE {
            self.busy_until += self.refusing;
            return None;
        }
        self.busy_until += self.serving;
        if let (None, Some(back)) = (self.seen.found_ms, self.back) {
            self.seen.found_ms = u64::try_from(now.duration_since(back).as_millis()).ok();
        }
        self.seen.served += 1;
        self.pay(payment);
        Some(self.busy_until)
    }

    fn pay(&mut self, payment: usize) {
        if self.paid.len() <= payment {
            self.paid.resize(payment + 1, false);
        }
        match std::mem::replace(&mut self.paid[payment], true) {
            true => self.seen.repeated += 1,
            false => self.seen.paid += 1,
        }
    }

    /// What was seen since it was last asked.
    fn second(&mut self) -> Seen {
        let seen = self.seen;
        (self.seen.offered, self.seen.served) = (0, 0);
        seen
    }
}

#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<Gateway>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Gateway> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn accept(self, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((connection, _)) => {
                    tokio::spawn(self.clone().answer(connection));
                }
                // The limit of open files, for example: others will go.
                Err(_) => time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    /// Answers the requests of a connection. A caller who goes away is no news.
    async fn answer(self, mut connection: TcpStream) {
        let _closed = connection.set_nodelay(true);
        let mut request = Vec::new();
        while let Ok(Some(payment)) = next_payment(&mut connection, &mut request).await {
            let taken = self.lock().take(payment, Instant::now());
            let answer: &[u8] = match taken {
                Some(served) => {
                    time::sleep_until(served).await;
                    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
                }
                None => b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
            };
            if connection.write_all(answer).await.is_err() {
                return;
            }
        }
    }
}

/// The number of the payment that the next request asks for: `POST /payments/17 HTTP/1.1`.
async fn next_payment(
    connection: &mut TcpStream,
    request: &mut Vec<u8>,
) -> std::io::Result<Option<usize>> {
    request.clear();
    while !request.ends_with(b"\r\n\r\n") {
        if request.len() > LONGEST || connection.read_buf(request).await? == 0 {
            return Ok(None);
        }
    }
    let text = String::from_utf8_lossy(request);
    let path = text.split_ascii_whitespace().nth(1).unwrap_or_default();
    Ok(path.strip_prefix("/payments/").and_then(|number| number.parse().ok()))
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let gateway = Shared(Arc::new(Mutex::new(Gateway::new(arguments.capacity, arguments.refusal))));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    print(&listener.local_addr()?)?;
    tokio::spawn(gateway.clone().accept(listener));
    let mut commands = BufReader::new(tokio::io::stdin()).lines();
    let mut seconds = time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            _ = seconds.tick() => print(&gateway.lock().second())?,
            command = commands.next_line() => match command?.as_deref() {
                Some("out") => gateway.lock().is_out = true,
                Some("back") => {
                    let mut gateway = gateway.lock();
                    (gateway.is_out, gateway.back) = (false, Some(Instant::now()));
                }
                _ => return Ok(()),
            },
        }
    }
}

/// One line for who watches.
fn print(what: &impl Serialize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(what)?)?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use resurgam_watchdog::test;

    #[test]
    async fn it_serves_as_many_as_it_can_and_refusing_costs_a_part_of_that() {
        let mut gateway = Gateway::new(10, 0.5);
        let now = Instant::now();
        let mut ask = |payment| gateway.take(payment, now).map(|at| at.duration_since(now));
        let millis = |number| Some(Duration::from_millis(number));
        // The sixth waits for half a second, the seventh would wait longer.
        let served: Vec<_> = (0..7).map(&mut ask).collect();
        assert_eq!(
            served,
            [100, 200, 300, 400, 500, 600]
                .map(millis)
                .into_iter()
                .chain([None])
                .collect::<Vec<_>>()
        );
        // By then it has spent 50 ms on the refusal.
        let later = now + Duration::from_millis(600);
        assert_eq!(gateway.take(7, later), Some(later + Duration::from_millis(150)));
        let Seen { offered, served, paid, .. } = gateway.second();
        assert_eq!((offered, served, paid), (8, 7, 7));
    }

    #[test]
    async fn an_outage_refuses_everything_and_the_first_payment_after_it_is_noted() {
        let mut gateway = Gateway::new(1_000, 0.5);
        let now = Instant::now();
        gateway.is_out = true;
        assert_eq!(gateway.take(1, now), None);
        (gateway.is_out, gateway.back) = (false, Some(now));
        let later = now + Duration::from_millis(40);
        assert!(gateway.take(1, later).is_some());
        assert!(gateway.take(1, later).is_some());
        let seen = gateway.second();
        assert_eq!((seen.found_ms, seen.paid, seen.repeated), (Some(40), 1, 1));
    }
}
