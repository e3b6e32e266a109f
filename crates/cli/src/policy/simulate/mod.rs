//! `resurgam policy simulate`: what an outage of a dependency costs under a policy, without a gate
//! before the dependency and with one.
//!
//! The numbers are those of `resurgam-bench outage`, which does the same with a real server and
//! real databases.

mod svg;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use resurgam_core::duration::{self, Human};
use resurgam_core::gate::Gate;
use resurgam_core::retry::RetryPolicy;
use resurgam_core::retry::dialect::Dialect;
use resurgam_policy::simulate::{SECOND, Simulated, Told, World, begins_at};
use resurgam_policy::words::number;

use super::complaint::Refusal;
use super::source;
use crate::exit::Exit;
use crate::output::Output;
use crate::style::{FAINT, STRONG};

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The policy of the calls, as for `explain`; the default policy, without
    file: Option<PathBuf>,
    /// The dialect it is written in
    #[arg(
        long,
        value_name = "DIALECT",
        value_parser = super::dialect(),
        default_value = Dialect::Canonical.name()
    )]
    from: Dialect,
    /// The settings of a gate before the dependency: a file with JSON, or TOML if its name ends in
    /// .toml; - for standard input
    #[arg(long, value_name = "FILE")]
    gate: Option<PathBuf>,
    /// How many calls are made each second
    #[arg(long, value_name = "NUMBER", value_parser = positive)]
    rate: f64,
    /// How many requests the dependency serves in a second
    #[arg(long, value_name = "NUMBER", value_parser = positive)]
    capacity: f64,
    /// How long the dependency is out
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    outage: Duration,
    /// How many calls are made at all, such as 1e6; without, calls go on until nobody waits
    #[arg(long, value_name = "NUMBER", value_parser = positive)]
    calls: Option<f64>,
    /// How long calls are made before the outage
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "20s")]
    before: Duration,
    /// How far a second of the clock has passed when the outage begins, such as 250ms; without,
    /// each number is the average over four such moments
    #[arg(long, value_name = "TIME", value_parser = phase)]
    phase: Option<Duration>,
    /// What refusing a request costs the dependency, where serving it costs 1
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "0.3")]
    refusal: f64,
    /// How many attempts run at once, on all nodes together
    #[arg(long, value_name = "NUMBER", default_value_t = 256)]
    slots: usize,
    /// Print one JSON value
    #[arg(long)]
    json: bool,
    /// Print a drawing of what happens as SVG
    #[arg(long, conflicts_with = "json")]
    svg: bool,
}

fn positive(text: &str) -> Result<f64, String> {
    let number: f64 =
        text.parse().map_err(|_| "expected a number, such as 1000 or 1e6".to_string())?;
    let is_one = number.is_finite() && number > 0.0 && number <= 1e9;
    is_one.then_some(number).ok_or_else(|| "expected a number above 0 and up to 1e9".to_string())
}

fn phase(text: &str) -> Result<Duration, String> {
    let phase = duration::parse(text)?;
    let is_one = phase < SECOND;
    is_one.then_some(phase).ok_or_else(|| "expected less than a second, such as 250ms".into())
}

fn share(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "expected a number from 0 to 1".to_string())?;
    (0.0..=1.0)
        .contains(&number)
        .then_some(number)
        .ok_or_else(|| "expected a number from 0 to 1".into())
}

/// Runs the command. The error is one that nobody asked for.
pub(super) fn run(arguments: &Arguments) -> io::Result<Output> {
    match arguments.worlds() {
        Err(refusal) => Ok(Output::refused(&refusal, arguments.json)?),
        Ok(worlds) => {
            let told: Vec<Told> = worlds
                .iter()
                .map(match arguments.phase {
                    Some(_) => Told::of,
                    None => Told::over_phases,
                })
                .collect();
            Ok(if arguments.json {
                let told =
                    Simulated { seconds_of_outage: arguments.outage.as_secs_f64(), told: &told };
                Output::json(serde_json::to_string(&told)?, Exit::Done)
            } else if arguments.svg {
                Output::done(svg::draw(arguments, &worlds[0], &told))
            } else {
                Output::done(text(arguments, &told))
            })
        }
    }
}

impl Arguments {
    /// The world without a gate, and behind it the one with it.
    fn worlds(&self) -> Result<Vec<World>, Refusal> {
        let policy = match &self.file {
            Some(file) => source::load(file, self.from)?.policy,
            None => RetryPolicy::DEFAULT.check().expect("the default policy is one"),
        };
        let gate = self.gate.as_ref().map(|file| source::load_gate(file)).transpose()?;
        let world = |gate: Option<Gate>| World {
            policy: policy.clone(),
            gate,
            rate: self.rate,
            calls: self.calls.map(|calls| calls as u64),
            capacity: self.capacity,
            refusal: self.refusal,
            before: self.before,
            outage: self.outage,
            slots: self.slots.max(1),
            phase: self.phase.map_or(Duration::ZERO, |phase| begins_at(phase, self.before)),
        };
        Ok(std::iter::once(None).chain(gate.map(Some)).map(world).collect())
    }
}

/// What is asked of a column of the table.
type Row = (&'static str, fn(&Told) -> String);

const ROWS: [Row; 10] = [
    ("requests in vain", |told| number(told.futile)),
    ("at least, and at most", |told| {
        format!("{} to {}", number(told.futile_least), number(told.futile_most))
    }),
    ("calls that waited when it was back", |told| number(told.waiting)),
    ("until a request was served", |told| time(told.found_ms.map(Duration::from_millis))),
    ("requests a second in the first minute", |told| number(told.offered_per_s as u64)),
    ("in the worst second", |told| number(told.offered_peak)),
    ("until nobody waited", drained),
    ("calls that were given up", |told| number(told.lost)),
    ("calls that succeeded", |told| number(told.succeeded)),
    ("failures that used up no attempt", |told| number(told.free)),
];

fn drained(told: &Told) -> String {
    match told.drained_s {
        Some(seconds) => time(Duration::try_from_secs_f64(seconds).ok()),
        None => "does not recover".to_string(),
    }
}

fn time(time: Option<Duration>) -> String {
    time.map_or_else(|| "never".to_string(), |time| Human(time).to_string())
}

/// What happens, in a sentence.
fn sentence(arguments: &Arguments) -> String {
    format!(
        "A dependency that serves {} requests a second is out for {}, while {} calls a second are \
         made.",
        number(arguments.capacity as u64),
        Human(arguments.outage),
        number(arguments.rate as u64)
    )
}

/// What comes of it, for people.
fn text(arguments: &Arguments, told: &[Told]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let names = told.iter().map(|told| if told.gate { "with the gate" } else { "without a gate" });
    table.set_header(std::iter::once("").chain(names));
    for (what, of) in ROWS {
        table.add_row(std::iter::once(what.to_string()).chain(told.iter().map(of)));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let table = table.trim_fmt();
    let (header, rows) = table.split_once('\n').unwrap_or((&table, ""));
    let when = match arguments.phase {
        Some(phase) => format!("The outage begins {} after a second of the clock.", Human(phase)),
        None => {
            "Each number is the average over outages that begin at four moments within a second."
                .to_string()
        }
    };
    let assumed = format!(
        "Assumed: calls come evenly; {} attempts run at once; a request waits for half a second at \
         most; refusing one costs {} of what serving one costs. {when}",
        arguments.slots, arguments.refusal
    );
    format!(
        "{STRONG}{}{STRONG:#}\n\n{FAINT}{header}{FAINT:#}\n{rows}\n\n{FAINT}{assumed}{FAINT:#}\n",
        sentence(arguments)
    )
}
