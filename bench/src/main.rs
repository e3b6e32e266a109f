//! Measures Resurgam through its public face.
//!
//! One mode is one file in `modes/`: its arguments, what it does, and the figures it reports. All
//! modes share the store they run on (`bed`), the workflow they run (`work`) and the form of their
//! reports (`report`). A *step* is one activity call with the turn it causes.
//!
//! ```sh
//! cargo run --release -p resurgam-bench -- chain --store sqlite:/tmp/chain.db --json
//! ```

mod bed;
mod modes;
mod report;
mod usage;
mod work;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use mimalloc::MiMalloc;

use crate::modes::{chain, growth, latency};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Whatever keeps a measurement from being made ends the program with a message.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

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
}

#[tokio::main]
async fn main() -> ExitCode {
    let measured = match Arguments::parse().mode {
        Mode::Chain(arguments) => chain::run(arguments).await,
        Mode::Latency(arguments) => latency::run(arguments).await,
        Mode::Growth(arguments) => growth::run(arguments).await,
    };
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
