//! The `resurgam` command line: arguments in, text and an exit code out.

#[cfg(unix)]
mod actions;
#[cfg(unix)]
mod database;
mod demo;
mod exit;
mod explain;
#[cfg_attr(not(unix), expect(dead_code, reason = "only `explain` needs it there"))]
mod form;
#[cfg_attr(not(unix), expect(dead_code, reason = "most commands are for Unix"))]
mod help;
#[cfg(unix)]
mod limits;
mod manual;
#[cfg(unix)]
mod moment;
#[cfg(unix)]
mod operator;
mod output;
mod policy;
#[cfg(unix)]
mod program;
mod signals;
mod style;
mod terminal;
#[cfg_attr(not(unix), expect(dead_code, reason = "only `explain` needs it there"))]
mod trouble;
#[cfg(unix)]
mod work;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use resurgam_core::Code;

use exit::Exit;
use output::Output;

/// Durable execution: workflows that survive crashes, and retries that are understood
#[derive(Debug, Parser)]
#[command(
    name = "resurgam",
    version,
    after_help = help::ALL,
    arg_required_else_help = true
)]
#[cfg_attr(unix, command(help_template = help::TEMPLATE))]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    // Actions are process groups, so these are for Unix.
    #[cfg(unix)]
    #[command(flatten)]
    Work(Box<work::Command>),
    #[command(name = "demo")]
    Demo(demo::Args),
    /// Evaluate, explain, convert and check retry policies, set them for activities
    #[command(subcommand, after_help = help::POLICY)]
    Policy(policy::Command),
    #[command(name = "explain")]
    Explain(explain::Args),
    #[command(flatten)]
    Manual(manual::Command),
}

fn main() -> ExitCode {
    #[cfg(unix)]
    actions::launch::be_hidden();
    let ended = match Cli::parse().command {
        #[cfg(unix)]
        Command::Work(command) => work::run(*command).and_then(|output| print(&output)),
        Command::Demo(args) => demo::run(&args).or_else(unless_unread),
        Command::Policy(command) => policy::run(command).and_then(|output| print(&output)),
        Command::Explain(args) => print(&explain::run(&args)),
        Command::Manual(command) => {
            manual::run(command, &mut Cli::command()).and_then(|output| print(&output))
        }
    };
    match ended {
        Ok(exit) => exit.into(),
        Err(error) => {
            // Nothing is left to be told if this fails as well.
            let _ =
                writeln!(anstream::stderr(), "{0}error:{0:#} {1} {error}", style::ERROR, Code::C6);
            Exit::Unexpected.into()
        }
    }
}

/// Prints what a command answered. Colours are left out where nobody would see them.
fn print(output: &Output) -> io::Result<Exit> {
    let mut stdout = anstream::stdout();
    let written = stdout.write_all(output.stdout.as_bytes()).and_then(|()| stdout.flush());
    // Behind the answer: on a terminal, what is said about it stands below it.
    let stderr = anstream::stderr().write_all(output.stderr.as_bytes());
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

#[cfg(all(test, unix))]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    /// The commands that do something, each with the words that lead to it.
    fn leaves(command: &clap::Command, way: &str) -> Vec<(String, clap::Command)> {
        let below = command.get_subcommands().filter(|one| one.get_name() != "help");
        let found: Vec<_> =
            below.flat_map(|one| leaves(one, &format!("{way} {}", one.get_name()))).collect();
        if found.is_empty() { vec![(way.to_string(), command.clone())] } else { found }
    }

    /// The words of the command line in a line of examples, up to what is only for the shell or the
    /// reader.
    fn words(example: &str) -> Option<Vec<String>> {
        let line = example[example.find("resurgam ")?..].split("   ").next()?;
        let (mut words, mut quoted) = (vec![String::new()], false);
        for c in line.chars() {
            match c {
                '\'' => quoted = !quoted,
                ' ' if !quoted => words.push(String::new()),
                '|' | '>' | ')' if !quoted => break,
                c => words.last_mut()?.push(c),
            }
        }
        words.retain(|word| !word.is_empty());
        Some(words)
    }

    #[test]
    fn the_help_lists_every_command_with_what_it_does() {
        let text = Cli::command().render_help().to_string();
        for command in Cli::command().get_subcommands() {
            let line = format!("  {:<11}  {}\n", command.get_name(), command.get_about().unwrap());
            assert!(text.contains(&line), "{line}{text}");
        }
    }

    #[test]
    fn the_help_of_every_command_ends_with_examples_that_are_accepted() {
        for (way, mut command) in leaves(&Cli::command(), "resurgam") {
            let text = command.render_help().to_string();
            let long = text.lines().find(|line| line.chars().count() > 100);
            assert_eq!(long, None, "{way}");
            if way == "resurgam demo" {
                continue; // It tells its story itself.
            }
            let examples = text.split("Examples:\n").nth(1).unwrap_or_else(|| panic!("{way}"));
            let examples = examples.split("\n\n").next().unwrap();
            assert!(examples.contains(&way), "{way}: {examples}");
            for words in examples.lines().filter_map(words) {
                let parsed = Cli::try_parse_from(&words).map_err(|error| error.to_string());
                assert!(parsed.is_ok(), "{words:?}: {parsed:?}");
            }
        }
    }
}
