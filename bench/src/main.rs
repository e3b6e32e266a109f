//! Measures Resurgam through its public face.
//!
//! One mode is one file in `modes/`: its arguments, what it does, and the figures it reports. All
//! modes share the store they run on (`bed`), the workflow they run (`work`) and the form of their
//! reports (`report`). `watched` stands between an engine and its store, and `floor` writes what it
//! saw there without either. A *step* is one activity call with the turn it causes.
//!
//! ```sh
//! cargo run --release -p resurgam-bench -- chain --store sqlite:/tmp/chain.db --json
//! ```
//!
//! It ends with 2 when the arguments make no sense, and with 1 when a measurement cannot be made.

mod bed;
mod floor;
mod modes;
mod report;
mod server;
mod usage;
mod watched;
mod work;

use std::fmt;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use mimalloc::MiMalloc;

use crate::modes::{
    bulk, chain, fanout, gated, growth, idle, kills, latency, limit, outage, replay, retries,
};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Whatever keeps a measurement from being made ends the program with a message.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Arguments that make no sense together, or here.
#[derive(Debug)]
struct Misuse(String);

impl Misuse {
    fn because(why: impl Into<String>) -> Box<dyn std::error::Error + Send + Sync> {
        Box::new(Misuse(why.into()))
    }
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}

/// Measures Resurgam: how many steps, how fast, at what cost.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Debug, Subcommand)]
enum Mode {
    /// Many workflows at once, each with a chain of activities.
    Chain(chain::Arguments),
    /// One workflow at a time: what a caller waits for when nobody else is there.
    Latency(latency::Arguments),
    /// One long workflow: whether its last steps take longer than its first.
    Growth(growth::Arguments),
    /// Many calls that wait for their next attempt: what they cost, and how late the due ones are.
    Retries(retries::Arguments),
    /// Other work beside many calls that an operator retries at once.
    Bulk(bulk::Arguments),
    /// Other work beside many calls that wait behind a gate that is shut.
    Gated(gated::Arguments),
    /// One bulk action over many calls, while the process that works on it is killed again and
    /// again.
    Kills(kills::Arguments),
    /// A dependency that is out for a while: what that costs, and how it comes back.
    Outage(outage::Arguments),
    /// One workflow that calls many activities at once.
    Fanout(fanout::Arguments),
    /// A run that is not in memory: how long it takes to rebuild it.
    Replay(replay::Arguments),
    /// An app with nothing to do: what that costs.
    Idle(idle::Arguments),
    /// The rows of `chain` written by the bare database: the limit on this machine.
    Floor(limit::Arguments),
    /// Fills a store for `retries`, in a process of its own.
    #[command(hide = true)]
    Fill(retries::fill::Arguments),
    /// Works on the action of `kills`, in a process of its own.
    #[command(hide = true)]
    KillsWorker(kills::Worker),
    /// The dependency of `outage`, in a process of its own.
    #[command(hide = true)]
    Gateway(outage::gateway::Arguments),
    /// A further node for `outage`, in a process of its own.
    #[command(hide = true)]
    Node(outage::node::Arguments),
}

#[tokio::main]
async fn main() -> ExitCode {
    let measured = match Arguments::parse().mode {
        Mode::Chain(arguments) => chain::run(arguments).await,
        Mode::Latency(arguments) => latency::run(arguments).await,
        Mode::Growth(arguments) => growth::run(arguments).await,
        Mode::Retries(arguments) => retries::run(arguments).await,
        Mode::Bulk(arguments) => bulk::run(arguments).await,
        Mode::Gated(arguments) => gated::run(arguments).await,
        Mode::Kills(arguments) => kills::run(arguments).await,
        Mode::KillsWorker(arguments) => kills::work(arguments).await,
        Mode::Outage(arguments) => outage::run(arguments).await,
        Mode::Fanout(arguments) => fanout::run(arguments).await,
        Mode::Replay(arguments) => replay::run(arguments).await,
        Mode::Idle(arguments) => idle::run(arguments).await,
        Mode::Floor(arguments) => limit::run(arguments).await,
        Mode::Fill(arguments) => retries::fill::run(arguments).await,
        Mode::Gateway(arguments) => outage::gateway::run(arguments).await,
        Mode::Node(arguments) => outage::node::run(arguments).await,
    };
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(if error.is::<Misuse>() { 2 } else { 1 })
        }
    }
}
