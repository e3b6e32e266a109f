//! The commands that run files and look at what runs: arguments in, [`Output`] out.
//!
//! Everything happens on one thread: the work is done by other processes, and the kernel ends those
//! with the thread that started them (see `actions/process.rs`).

mod act_on_run;
mod bulk;
mod call;
mod dead;
mod delete;
mod each;
mod ended;
mod export;
mod files;
mod forms;
mod gate;
mod groups;
mod list;
mod listing;
mod log;
mod look;
mod metrics;
mod node;
mod paused;
pub(crate) mod policy;
mod request;
mod run;
mod schedule;
mod screen;
mod server;
mod tell;
mod token;
mod wait;
mod watch;
mod what_if;
mod worker;

pub(crate) use call::key as call_key;
#[cfg(test)]
pub(crate) use forms::started_with;
pub(crate) use groups::name_of;

use std::io;

use clap::Subcommand;

use crate::help;
use crate::limits;
use crate::output::Output;
use crate::signals;
use crate::trouble::Trouble;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(after_help = help::RUN)]
    Run(run::RunArgs),
    #[command(after_help = help::START)]
    Start(run::StartArgs),
    #[command(after_help = help::WORKER)]
    Worker(worker::Args),
    #[command(after_help = help::SERVER)]
    Server(server::Args),
    #[command(after_help = help::SIGNAL)]
    Signal(tell::SignalArgs),
    #[command(after_help = help::CANCEL)]
    Cancel(tell::CancelArgs),
    #[command(after_help = help::TERMINATE)]
    Terminate(tell::TerminateArgs),
    #[command(after_help = help::PAUSE)]
    Pause(act_on_run::PauseArgs),
    #[command(after_help = help::RESUME)]
    Resume(act_on_run::ResumeArgs),
    #[command(after_help = help::RESTART)]
    Restart(act_on_run::RestartArgs),
    #[command(after_help = help::RESET)]
    Reset(act_on_run::ResetArgs),
    /// Retry, pause, resume or end an activity call
    #[command(subcommand, after_help = help::CALL)]
    Call(call::Command),
    /// Decide about calls that are paused, group by group
    #[command(subcommand, after_help = help::PAUSED)]
    Paused(paused::Command),
    /// Decide about calls that were given up, group by group
    #[command(subcommand, after_help = help::DEAD)]
    Dead(dead::Command),
    /// Look at actions on many calls or instances, and stop them
    #[command(subcommand, after_help = help::BULK)]
    Bulk(bulk::Command),
    /// Look at what stands before dependencies, shut and open it
    #[command(subcommand, after_help = help::GATE)]
    Gate(gate::Command),
    /// Pause and resume all calls of an activity
    #[command(subcommand, after_help = help::ACTIVITY)]
    Activity(gate::ActivityCommand),
    /// Pause and resume all calls of a queue
    #[command(subcommand, after_help = help::QUEUE)]
    Queue(gate::QueueCommand),
    #[command(after_help = help::DELETE)]
    Delete(delete::Args),
    /// Start programs and graphs by the clock
    #[command(subcommand, after_help = help::SCHEDULE)]
    Schedule(schedule::Command),
    #[command(after_help = help::LIST)]
    List(list::Args),
    #[command(after_help = help::SHOW)]
    Show(look::ShowArgs),
    #[command(after_help = help::HISTORY)]
    History(look::HistoryArgs),
    #[command(after_help = help::ATTEMPTS)]
    Attempts(look::AttemptsArgs),
    #[command(after_help = help::WATCH)]
    Watch(watch::Args),
    #[command(after_help = help::EXPORT)]
    Export(export::Args),
    #[command(after_help = help::FMT)]
    Fmt(files::FmtArgs),
    #[command(after_help = help::CHECK)]
    Check(files::CheckArgs),
    /// Check graphs
    #[command(subcommand, after_help = help::GRAPH)]
    Graph(files::GraphCommand),
    /// Tokens that let people and programs into the server
    #[command(subcommand, after_help = help::TOKEN)]
    Token(token::Command),
    /// Keys for the secrets of graphs
    #[command(subcommand, after_help = help::SECRETS)]
    Secrets(files::SecretsCommand),
}

/// Runs a command. The error is one of setting up this process.
pub(crate) fn run(command: Command) -> io::Result<Output> {
    let json = command.json();
    run_here(json, command.run())
}

/// Runs a command about policies that are stored.
pub(crate) fn run_policy(command: policy::Command) -> io::Result<Output> {
    let json = command.json();
    run_here(json, command.run())
}

fn run_here(
    json: bool,
    command: impl Future<Output = Result<Output, Trouble>>,
) -> io::Result<Output> {
    limits::take_open_files();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        signals::outlive_file_limits()?;
        command.await
    });
    // What is still being read in the background is nobody's concern any more.
    runtime.shutdown_background();
    Ok(ended.unwrap_or_else(|trouble| trouble.output(json)))
}

impl Command {
    async fn run(self) -> Result<Output, Trouble> {
        match self {
            Command::Run(args) => args.run().await,
            Command::Start(args) => args.run().await,
            Command::Worker(args) => args.run().await,
            Command::Server(args) => args.run().await,
            Command::Signal(args) => args.run().await,
            Command::Cancel(args) => args.run().await,
            Command::Terminate(args) => args.run().await,
            Command::Pause(args) => args.run().await,
            Command::Resume(args) => args.run().await,
            Command::Restart(args) => args.run().await,
            Command::Reset(args) => args.run().await,
            Command::Call(command) => command.run().await,
            Command::Paused(command) => command.run().await,
            Command::Dead(command) => command.run().await,
            Command::Bulk(command) => command.run().await,
            Command::Gate(command) => command.run().await,
            Command::Activity(command) => command.run().await,
            Command::Queue(command) => command.run().await,
            Command::Delete(args) => args.run().await,
            Command::Schedule(command) => command.run().await,
            Command::List(args) => args.run().await,
            Command::Show(args) => args.run().await,
            Command::History(args) => args.run().await,
            Command::Attempts(args) => args.run().await,
            Command::Watch(args) => args.run().await,
            Command::Export(args) => args.run().await,
            Command::Fmt(args) => args.run(),
            Command::Check(args) => args.run(),
            Command::Graph(command) => command.run(),
            Command::Token(command) => command.run().await,
            Command::Secrets(command) => command.run(),
        }
    }

    /// Whether standard output is for a program.
    fn json(&self) -> bool {
        match self {
            Command::Run(args) => args.json,
            Command::Start(args) => args.json,
            Command::Worker(args) => args.json,
            Command::Server(_) => false,
            Command::Signal(args) => args.json,
            Command::Cancel(args) => args.json,
            Command::Terminate(args) => args.json,
            Command::Pause(args) => args.json(),
            Command::Resume(args) => args.json(),
            Command::Restart(args) => args.json(),
            Command::Reset(args) => args.json(),
            Command::Call(command) => command.json(),
            Command::Paused(command) => command.json(),
            Command::Dead(command) => command.json(),
            Command::Bulk(command) => command.json(),
            Command::Gate(command) => command.json(),
            Command::Activity(command) => command.json(),
            Command::Queue(command) => command.json(),
            Command::Delete(args) => args.json,
            Command::Schedule(command) => command.json(),
            Command::List(args) => args.json,
            Command::Show(args) => args.json,
            Command::History(args) => args.json,
            Command::Attempts(args) => args.json,
            Command::Watch(args) => args.json,
            Command::Export(args) => args.json,
            Command::Fmt(args) => args.json,
            Command::Check(args) => args.json,
            Command::Graph(files::GraphCommand::Check(args)) => args.json,
            Command::Token(command) => command.json(),
            Command::Secrets(command) => command.json(),
        }
    }
}

/// Warnings for people. They never go to standard output.
pub(crate) fn warn(lines: &[String]) {
    use std::io::Write;
    for line in lines {
        let line = crate::policy::complaint::printable(line);
        // Nobody reads standard error: then nobody wants to know.
        let _ = writeln!(anstream::stderr(), "{0}warning:{0:#} {line}", crate::style::WARNING);
    }
}
