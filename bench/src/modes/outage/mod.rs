//! A dependency that is out for a while: what that costs, and how it comes back.
//!
//! Payments arrive at two thirds of what a gateway can serve. After a while the gateway is out, for
//! as long as it takes `--calls` payments to arrive, and then it is back, while payments go on
//! arriving. What is counted is what the gateway saw: how many requests came to nothing, how many
//! came at once when it was back, and how long it took until nobody waited.

pub(crate) mod gateway;
pub(crate) mod node;
mod payments;
mod plot;

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use resurgam::Client;
use rusqlite::{Connection, OpenFlags};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time;

use self::gateway::Seen;
use self::node::Nodes;
use self::payments::{Dependency, builder, pay, slots};
use crate::bed::{Bed, Location, Place};
use crate::report::Report;
use crate::{Misuse, Result, server};

/// The gateway can serve so many times what arrives.
const ROOM: f64 = 1.5;

/// What requests may come to nothing with a gate, see `futile_bound`.
const FUTILE_PER_NODE: u64 = 20;
const FUTILE_PER_THOUSAND: u64 = 5;
const PROBES: u64 = 3;
/// After how many seconds a gate probes first, and at the latest.
const FIRST_PROBE: u64 = 5;
const LAST_PROBE: u64 = 30;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many payments arrive while the gateway is out.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(10..))]
    calls: u64,
    /// How many requests the gateway serves in a second.
    #[arg(long, default_value_t = 1_250, value_parser = clap::value_parser!(u32).range(3..))]
    capacity: u32,
    /// What it costs the gateway to refuse a request, where serving it costs 1.
    #[arg(long, default_value_t = 0.3, value_parser = share)]
    refusal: f64,
    /// For how many seconds payments arrive before the gateway is out.
    #[arg(long, default_value_t = 20)]
    before: u64,
    /// How many processes make payments; more than one needs PostgreSQL.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    nodes: u32,
    /// Puts a gate with a breaker before the gateway.
    #[arg(long)]
    gate: bool,
    /// Draws what happened into this file, as SVG.
    #[arg(long)]
    svg: Option<PathBuf>,
    #[command(flatten)]
    bed: Bed,
}

fn share(text: &str) -> std::result::Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| format!("{text} is no number"))?;
    (0.0..=1.0).contains(&share).then_some(share).ok_or("expected a number from 0 to 1".into())
}

/// What there was in one second.
#[derive(Clone, Copy, Debug)]
struct Second {
    seen: Seen,
    /// How many payments had arrived and were neither made nor given up.
    waiting: u64,
}

/// What there was, second by second.
#[derive(Debug, Default)]
struct Story {
    seconds: Vec<Second>,
    /// The second from which on the gateway was out, the one from which on it was back, and the one
    /// in which nobody waited any more.
    out: usize,
    back: usize,
    drained: Option<usize>,
    /// How far a second of the clock had passed when the gateway was out: a gate counts by those.
    phase: Duration,
    /// How many payments arrived.
    arrived: u64,
}

/// A gateway in a process of its own.
struct Gateway {
    process: Child,
    commands: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    address: SocketAddr,
}

impl Gateway {
    async fn begin(capacity: u32, refusal: f64) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["gateway", "--capacity", &capacity.to_string()]);
        command.args(["--refusal", &refusal.to_string()]);
        let (process, commands, mut lines) = begin(command)?;
        let address = lines.next_line().await?.ok_or("begin the gateway: see above")?;
        Ok(Gateway { process, commands, lines, address: serde_json::from_str(&address)? })
    }

    async fn tell(&mut self, what: &str) -> Result<()> {
        Ok(self.commands.write_all(format!("{what}\n").as_bytes()).await?)
    }

    /// What it saw in the second that ends now.
    async fn second(&mut self) -> Result<Seen> {
        let line = self.lines.next_line().await?.ok_or("watch the gateway: it has ended")?;
        Ok(serde_json::from_str(&line)?)
    }

    async fn end(mut self) -> Result<()> {
        drop(self.commands);
        self.process.wait().await?;
        Ok(())
    }
}

/// Begins this program again, to do something that ends with its standard input.
fn begin(mut command: Command) -> Result<(Child, ChildStdin, Lines<BufReader<ChildStdout>>)> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut process = command.spawn()?;
    let (commands, out) = (process.stdin.take(), process.stdout.take());
    let (commands, out) = commands.zip(out).ok_or("begin a process: it has no pipes")?;
    Ok((process, commands, BufReader::new(out).lines()))
}

/// Payments that arrive.
#[derive(Clone, Default)]
struct Arrivals {
    count: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl Arrivals {
    /// Has payments arrive, so many in a second, until it is over. Answers with how many did.
    async fn run(self, client: Client, rate: f64) -> Result<u64> {
        let (began, mut asked) = (Instant::now(), JoinSet::new());
        let mut ticks = time::interval(Duration::from_millis(10));
        while !self.is_over.load(Ordering::Relaxed) {
            ticks.tick().await;
            let due = (began.elapsed().as_secs_f64() * rate) as u64;
            while self.count.load(Ordering::Relaxed) < due {
                let number = self.count.fetch_add(1, Ordering::Relaxed);
                let client = client.clone();
                asked.spawn(async move {
                    client.submit(format!("payment-{number}"), pay(number)).await.map(drop)
                });
            }
            while let Some(started) = asked.try_join_next() {
                started??;
            }
        }
        while let Some(started) = asked.join_next().await {
            started??;
        }
        Ok(self.count.load(Ordering::Relaxed))
    }
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let Arguments { capacity, refusal, nodes, bed, .. } = &arguments;
    let place = bed.place()?;
    if matches!(place.location, Location::Sqlite(_)) && *nodes > 1 {
        return Err(Misuse::because("--nodes is for PostgreSQL: one process works on a file"));
    }
    let gateway = Gateway::begin(*capacity, *refusal).await?;
    let gateway_of = Dependency { address: gateway.address, gate: arguments.gate };
    let opened = place.open(builder(gateway_of)).await?;
    let others = Nodes::begin(&place, gateway_of, nodes - 1).await?;

    let arrivals = Arrivals::default();
    let client = Client::clone(&opened.app);
    let arriving = tokio::spawn(arrivals.clone().run(client, arguments.rate()));
    let watching = Watching { arguments: &arguments, place: &place, arrivals, arriving, gateway };
    let (story, lost) = watching.until_nobody_waits().await?;

    if let Some(file) = &arguments.svg {
        fs::write(file, plot::draw(&story, &arguments))?;
    }
    others.end().await?;
    opened.close().await?;
    bed.print(&place, "outage", &arguments.report(&story, lost)).await?;
    place.remove().await
}

/// What the drill looks at.
struct Watching<'a> {
    arguments: &'a Arguments,
    place: &'a Place,
    arrivals: Arrivals,
    arriving: JoinHandle<Result<u64>>,
    gateway: Gateway,
}

impl Watching<'_> {
    /// Takes the gateway out and back, and answers with what happened and how many payments were
    /// given up.
    async fn until_nobody_waits(mut self) -> Result<(Story, u64)> {
        let mut story = Story::default();
        let before = usize::try_from(self.arguments.before)?;
        self.watch(&mut story, |story| story.seconds.len() >= before).await?;
        story.out = story.seconds.len();
        self.gateway.tell("out").await?;
        story.phase = Duration::from_nanos(
            SystemTime::now().duration_since(UNIX_EPOCH)?.subsec_nanos().into(),
        );
        let back = story.out + self.arguments.outage().as_secs() as usize;
        self.watch(&mut story, |story| story.seconds.len() >= back).await?;
        story.back = story.seconds.len();
        self.gateway.tell("back").await?;
        // Those that arrive in a second are always under way.
        let (few, limit) = (self.arguments.rate() as u64, story.back + self.arguments.patience());
        let is_drained = |story: &Story| {
            let last = story.seconds.last();
            last.is_some_and(|last| last.seen.found_ms.is_some() && last.waiting <= few)
        };
        self.watch(&mut story, |story| is_drained(story) || story.seconds.len() >= limit).await?;
        story.drained = is_drained(&story).then_some(story.seconds.len());
        self.arrivals.is_over.store(true, Ordering::Relaxed);
        story.arrived = (&mut self.arriving).await??;
        // However long it takes: until nobody waits, or fewer do not become of them.
        let (patience, mut since) = (self.arguments.patience(), story.seconds.len() + 1);
        let mut fewest = u64::MAX;
        let is_over = |story: &Story| {
            let (second, last) = (story.seconds.len(), story.seconds.last());
            let waiting = last.map(|last| last.waiting).filter(|_| second >= since);
            if let Some(fewer) = waiting.filter(|waiting| *waiting < fewest) {
                (fewest, since) = (fewer, second);
            }
            waiting == Some(0) || second > since + patience
        };
        self.watch(&mut story, is_over).await?;
        // The gateway tells a second later what it has seen.
        let seconds = story.seconds.len() + 1;
        self.watch(&mut story, |story| story.seconds.len() >= seconds).await?;
        let lost = count(self.place, "failed").await?;
        self.gateway.end().await?;
        Ok((story, lost))
    }

    async fn watch(
        &mut self,
        story: &mut Story,
        mut is_enough: impl FnMut(&Story) -> bool,
    ) -> Result<()> {
        while !is_enough(story) {
            let seen = self.gateway.second().await?;
            let waiting = count(self.place, "running").await?;
            story.seconds.push(Second { seen, waiting });
        }
        Ok(())
    }
}

/// How many payments have this status.
async fn count(place: &Place, status: &'static str) -> Result<u64> {
    let sql = |table: &str| format!("SELECT count(*) FROM {table} WHERE status = '{status}'");
    match &place.location {
        Location::Sqlite(file) => {
            let (file, sql) = (file.clone(), sql("instance"));
            let counted = tokio::task::spawn_blocking(move || -> rusqlite::Result<i64> {
                let connection =
                    Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
                connection.busy_timeout(Duration::from_secs(5))?;
                connection.query_row(&sql, [], |row| row.get(0))
            });
            Ok(u64::try_from(counted.await??)?)
        }
        Location::Postgres(url) => {
            Ok(server::ask(url, &sql(&format!("{}.instance", place.schema))).await?.parse()?)
        }
    }
}

impl Arguments {
    /// How many payments arrive in a second.
    fn rate(&self) -> f64 {
        f64::from(self.capacity) / ROOM
    }

    /// How long the gateway is out.
    fn outage(&self) -> Duration {
        Duration::from_secs((self.calls as f64 / self.rate()).ceil() as u64)
    }

    /// How long the gateway would take for so many payments beside those that go on arriving.
    fn shortest_drain(&self, waiting: u64) -> f64 {
        waiting as f64 / (f64::from(self.capacity) - self.rate())
    }

    /// For how many seconds a drill is watched after the outage at most.
    fn patience(&self) -> usize {
        30 + (4.0 * self.shortest_drain(self.calls)) as usize
    }

    /// How many requests may come to nothing where a gate stands before the gateway: what is under
    /// way when it is out, what nodes begin until they have heard of that, probes, and chance.
    fn futile_bound(&self) -> u64 {
        let per_node = self.bed.slots().unwrap_or(slots() as u64) + FUTILE_PER_NODE;
        let (mut probed, mut period, mut time) = (0, FIRST_PROBE, 0);
        while time < self.outage().as_secs() {
            (probed, time, period) = (probed + 1, time + period, LAST_PROBE.min(2 * period));
        }
        let chance = self.calls * FUTILE_PER_THOUSAND / 1_000;
        u64::from(self.nodes) * per_node + PROBES * probed + chance
    }

    fn report(&self, story: &Story, lost: u64) -> Report {
        let Story { seconds, out, back, drained, phase, arrived } = story;
        let during = &seconds[*out..];
        let after = &seconds[*back..];
        let minute = &after[..after.len().min(60)];
        let offered =
            |seconds: &[Second]| seconds.iter().map(|second| second.seen.offered).sum::<u64>();
        let served =
            |seconds: &[Second]| seconds.iter().map(|second| second.seen.served).sum::<u64>();
        let waited = seconds[back - 1].waiting;
        let last = seconds.last().map(|second| second.seen).unwrap_or_default();
        let report = Report::default()
            .count("calls", self.calls)
            .number("rate_per_s", self.rate())
            .number("outage_s", self.outage().as_secs_f64())
            .millis("phase_ms", *phase)
            .count("waiting", waited)
            .count("futile", offered(during).saturating_sub(served(during)))
            .count("futile_bound", self.futile_bound())
            .number("offered_per_s", offered(minute) as f64 / minute.len().max(1) as f64)
            .count(
                "offered_peak",
                after.iter().map(|second| second.seen.offered).max().unwrap_or(0),
            )
            .maybe_millis("found_ms", last.found_ms.map(Duration::from_millis));
        let found = Duration::from_millis(last.found_ms.unwrap_or_default()).as_secs_f64();
        let report = match drained {
            Some(drained) => report.number("drained_s", (drained - back) as f64 - found),
            None => report,
        };
        report
            .number("drained_bound_s", 1.5 * self.shortest_drain(waited))
            .count("arrived", *arrived)
            .count("lost", lost)
            .count("paid", last.paid)
            .count("repeated", last.repeated)
    }
}
