//! The `resurgam` command line: arguments in, text and an exit code out.

#[cfg(unix)]
mod actions;
#[cfg(unix)]
mod database;
mod demo;
mod exit;
#[cfg(unix)]
mod form;
mod manual;
mod output;
mod policy;
#[cfg(unix)]
mod program;
mod signals;
mod style;
mod terminal;
#[cfg(unix)]
mod trouble;
#[cfg(unix)]
mod work;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use exit::Exit;
use output::Output;

/// Durable execution: workflows that survive crashes, and retries that are understood
#[derive(Debug, Parser)]
#[command(name = "resurgam", version, after_help = exit::HELP, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    // Actions are process groups, so these are for Unix.
    #[cfg(unix)]
    #[command(flatten)]
    Work(work::Command),
    #[command(name = "demo")]
    Demo(demo::Args),
    /// Evaluate, explain, convert and check retry policies
    #[command(subcommand, after_help = exit::HELP)]
    Policy(policy::Command),
    #[command(flatten)]
    Manual(manual::Command),
}

fn main() -> ExitCode {
    #[cfg(unix)]
    actions::launch::be_hidden();
    let ended = match Cli::parse().command {
        #[cfg(unix)]
        Command::Work(command) => work::run(command).and_then(|output| print(&output)),
        Command::Demo(args) => demo::run(&args).or_else(unless_unread),
        Command::Policy(command) => policy::run(command).and_then(|output| print(&output)),
        Command::Manual(command) => {
            manual::run(command, &mut Cli::command()).and_then(|output| print(&output))
        }
    };
    match ended {
        Ok(exit) => exit.into(),
        Err(error) => {
            // Nothing is left to be told if this fails as well.
            let _ = writeln!(anstream::stderr(), "{0}error:{0:#} {error}", style::ERROR);
            Exit::Unexpected.into()
        }
    }
}

/// Prints what a command answered. Colours are left out where nobody would see them.
fn print(output: &Output) -> io::Result<Exit> {
    let stderr = anstream::stderr().write_all(output.stderr.as_bytes());
    let mut stdout = anstream::stdout();
    let written = stdout.write_all(output.stdout.as_bytes()).and_then(|()| stdout.flush());
    let written = stderr.and(written).map(|()| output.exit);
    written.or_else(unless_unread).map_err(during("write the answer"))
}

/// Takes it as done when nobody reads on, as in `resurgam ... | head`.
fn unless_unread(error: io::Error) -> io::Result<Exit> {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(Exit::Done),
        _ => Err(error),
    }
}

/// Adds to an error what was attempted.
fn during(what: &str) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{what}: {error}"))
}
