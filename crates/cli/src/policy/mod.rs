//! `resurgam policy`: evaluates, explains, converts and checks retry policies, simulates outages
//! under them, and sets them for all calls of an activity (`work/policy.rs`).
//!
//! Each command reads one policy (see [`source`]) and answers with text; nothing here prints. The
//! answers for programs are those of [`resurgam_policy`], which the server gives, too.
//! Only [`eval`] works line by line, because another program may wait for each answer.

mod check;
pub(crate) mod complaint;
mod convert;
mod eval;
mod explain;
pub(crate) mod locate;
mod simulate;
pub(crate) mod source;
mod svg;
mod toml_text;
#[cfg(unix)]
pub(crate) mod what_if;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use resurgam_core::duration;
use resurgam_core::retry::dialect::Dialect;
use resurgam_core::retry::json_schema;
use resurgam_policy::explain::Explanation;

use crate::exit::Exit;
use crate::help;
use crate::output::Output;
use complaint::Refusal;
use source::Loaded;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Answer questions about policies: JSON lines on standard input, one JSON line each back
    ///
    /// A line such as {"dialect": "edda", "kind": "delay", "config": {}, "retry_index": 2} is
    /// answered with {"delay_ms": 2000}. Kinds: delay (retry_index), decision (failed_attempt,
    /// elapsed_ms, error), schedule, invalid. Optional everywhere: u, previous_delay_ms, error.
    /// A line that makes no sense is answered with {"error": ...}.
    #[command(after_help = help::EVAL)]
    Eval,
    /// Tell what a policy does: a sentence, its delays, the outage it bridges, its lints
    #[command(after_help = help::EXPLAIN_POLICY)]
    Explain {
        #[command(flatten)]
        input: Input,
        /// How long each attempt is taken to last, such as 200ms
        #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "0s")]
        attempt_time: Duration,
        /// Print one JSON value
        #[arg(long)]
        json: bool,
        /// Print a drawing of the schedule as SVG
        #[arg(long, conflicts_with = "json")]
        svg: bool,
    },
    /// Write a policy in another dialect and list what is lost
    #[command(after_help = help::CONVERT)]
    Convert {
        #[command(flatten)]
        input: Input,
        /// The dialect to write
        #[arg(long, value_name = "DIALECT", value_parser = dialect(), hide_possible_values = true)]
        to: Dialect,
        /// Print one JSON value with the configuration and what is lost
        #[arg(long)]
        json: bool,
    },
    /// Check a policy: errors, and lints about what is probably not meant
    #[command(after_help = help::CHECK_POLICY)]
    Check {
        #[command(flatten)]
        input: Input,
        /// Print one JSON value
        #[arg(long)]
        json: bool,
        /// Refuse a policy that has lints
        #[arg(long)]
        strict: bool,
    },
    /// Simulate an outage of a dependency: what it costs, without a gate and with one
    #[command(after_help = help::SIMULATE)]
    Simulate(simulate::Arguments),
    /// Print the JSON Schema of a policy
    #[command(after_help = help::SCHEMA)]
    Schema,
    #[cfg(unix)]
    #[command(flatten)]
    Stored(crate::work::policy::Command),
}

#[derive(Args, Debug)]
pub(crate) struct Input {
    /// The policy: a file with JSON (or TOML, if its name ends in .toml), - for standard input,
    /// or the name of a preset such as edda.default
    file: PathBuf,
    /// The dialect it is written in
    #[arg(
        long,
        value_name = "DIALECT",
        value_parser = dialect(),
        default_value = Dialect::Canonical.name()
    )]
    from: Dialect,
}

impl Output {
    /// A refusal for people, or as one JSON value.
    fn refused(refusal: &Refusal, json: bool) -> serde_json::Result<Self> {
        if json {
            return check::refused_json(refusal);
        }
        Ok(Output { stdout: String::new(), stderr: refusal.to_text(), exit: refusal.exit })
    }
}

/// Runs a command. The error is one that nobody asked for.
pub(crate) fn run(command: Command) -> io::Result<Output> {
    match command {
        Command::Eval => {
            eval::run(io::stdin().lock(), io::stdout().lock())?;
            Ok(Output::done(String::new()))
        }
        Command::Explain { input, attempt_time, json, svg } => input.answer(json, |loaded| {
            Ok(match (json, svg) {
                (true, _) => {
                    let Loaded { policy, notes, .. } = loaded;
                    let told = Explanation::of(policy, notes, attempt_time);
                    Output::json(serde_json::to_string_pretty(&told)?, Exit::Done)
                }
                (_, true) => Output::done(svg::draw(&loaded.policy, attempt_time)),
                _ => Output::done(explain::text(loaded, attempt_time)),
            })
        }),
        Command::Convert { input, to, json } => input.answer(json, |loaded| match json {
            true => convert::json(loaded, to),
            false => convert::text(loaded, to),
        }),
        Command::Check { input, json, strict } => input.answer(json, |loaded| match json {
            true => check::json(loaded, strict),
            false => Ok(check::text(loaded, input.from, strict)),
        }),
        Command::Simulate(arguments) => simulate::run(&arguments),
        #[cfg(unix)]
        Command::Stored(command) => crate::work::run_policy(command),
        Command::Schema => {
            let schema = serde_json::to_string_pretty(&json_schema())?;
            Ok(Output::json(schema, Exit::Done))
        }
    }
}

impl Input {
    /// Loads the policy and answers with it, or with what is wrong with it.
    fn answer(
        &self,
        json: bool,
        answer: impl FnOnce(&Loaded) -> serde_json::Result<Output>,
    ) -> io::Result<Output> {
        let output = match source::load(&self.file, self.from) {
            Ok(loaded) => answer(&loaded)?,
            Err(refusal) => Output::refused(&refusal, json)?,
        };
        Ok(output)
    }
}

/// Reads the name of a dialect; an unknown one is answered with those there are.
fn dialect() -> impl TypedValueParser<Value = Dialect> {
    let names = Dialect::ALL.map(|dialect| PossibleValue::new(dialect.name()));
    PossibleValuesParser::new(names).map(|name| Dialect::named(&name).unwrap_or(Dialect::Canonical))
}
