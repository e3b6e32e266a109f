//! `resurgam policy simulate`: what an outage of a dependency costs under a policy, without a gate
//! before the dependency and with one.
//!
//! The numbers are those of `resurgam-bench outage`, which does the same with a real server and
//! real databases.

mod dependency;
mod svg;
mod world;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use resurgam_core::duration::{self, Human};
use resurgam_core::gate::Gate;
use resurgam_core::retry::RetryPolicy;
use resurgam_core::retry::dialect::Dialect;
use serde::Serialize;

use super::complaint::Refusal;
use super::source;
use super::words::number;
use crate::exit::Exit;
use crate::output::Output;
use crate::style::{FAINT, STRONG};
use world::{Story, World};

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
                    Answer { seconds_of_outage: arguments.outage.as_secs_f64(), told: &told };
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

const SECOND: Duration = Duration::from_secs(1);

/// How far a second has passed when a world begins, so far as one is to have passed when its outage
/// begins.
fn begins_at(phase: Duration, before: Duration) -> Duration {
    let before = Duration::from_nanos(u64::from(before.subsec_nanos()));
    let begins = phase + SECOND - before;
    if begins >= SECOND { begins - SECOND } else { begins }
}

/// When within a second of the clock an outage may begin. Over these, how long a gate takes to
/// notice is on average what it is over all.
const PHASES: [Duration; 4] = [
    Duration::from_millis(125),
    Duration::from_millis(375),
    Duration::from_millis(625),
    Duration::from_millis(875),
];

/// What is told about a world.
#[derive(Clone, Debug, Serialize)]
struct Told {
    gate: bool,
    /// Requests that came to nothing since the outage began, also those that the dependency refused
    /// when it was back, and how many they are at least and at most, depending on when within a
    /// second it begins, where that is not said.
    futile: u64,
    futile_least: u64,
    futile_most: u64,
    /// Calls that waited when it ended.
    waiting: u64,
    /// Requests in the first minute after it, each second, and in the worst second.
    offered_per_s: f64,
    offered_peak: u64,
    /// How long after its end the first request was served, and until nobody waited from then on.
    found_ms: Option<u64>,
    drained_s: Option<f64>,
    recovers: bool,
    /// Calls that were given up, calls that succeeded, and failures that used up no attempt.
    lost: u64,
    succeeded: u64,
    free: u64,
    #[serde(skip)]
    story: Story,
}

#[derive(Serialize)]
struct Answer<'a> {
    seconds_of_outage: f64,
    #[serde(rename = "worlds")]
    told: &'a [Told],
}

impl Told {
    /// What happens on average, whenever within a second the outage begins. The story is of one
    /// that begins with a second.
    fn over_phases(world: &World) -> Self {
        let all = PHASES.map(|phase| Told::of(&World { phase, ..world.clone() }));
        let mean = |of: fn(&Told) -> u64| mean(all.iter().map(of));
        let seconds = |of: fn(&Told) -> Option<f64>| {
            let all: Option<Vec<f64>> = all.iter().map(of).collect();
            all.map(|all| all.iter().sum::<f64>() / PHASES.len() as f64)
        };
        Told {
            futile: mean(|told| told.futile),
            futile_least: all.iter().map(|told| told.futile).min().unwrap_or_default(),
            futile_most: all.iter().map(|told| told.futile).max().unwrap_or_default(),
            waiting: mean(|told| told.waiting),
            offered_per_s: seconds(|told| Some(told.offered_per_s)).unwrap_or_default(),
            offered_peak: mean(|told| told.offered_peak),
            found_ms: seconds(|told| told.found_ms.map(|found| found as f64))
                .map(|found| found as u64),
            drained_s: seconds(|told| told.drained_s),
            recovers: all.iter().all(|told| told.recovers),
            lost: mean(|told| told.lost),
            succeeded: mean(|told| told.succeeded),
            free: mean(|told| told.free),
            ..Told::of(world)
        }
    }

    fn of(world: &World) -> Self {
        let story = world.story();
        let out = world.before.as_secs() as usize;
        let back = (world.before + world.outage).as_secs() as usize;
        let seconds = &story.seconds;
        let during = seconds.get(out..back.min(seconds.len())).unwrap_or_default();
        let after = seconds.get(back..).unwrap_or_default();
        let minute = &after[..after.len().min(60)];
        let offered = |of: &[world::Second]| of.iter().map(|second| second.offered).sum::<u64>();
        let served = |of: &[world::Second]| of.iter().map(|second| second.served).sum::<u64>();
        let end = world.before + world.outage;
        let found = story.found.map(|found| found.saturating_sub(end));
        let drained = story.drained.zip(story.found);
        let since = seconds.get(out..).unwrap_or_default();
        let futile = offered(since).saturating_sub(served(since));
        Told {
            gate: world.gate.is_some(),
            futile,
            futile_least: futile,
            futile_most: futile,
            waiting: during.last().map_or(0, |second| second.waiting),
            offered_per_s: offered(minute) as f64 / minute.len().max(1) as f64,
            offered_peak: after.iter().map(|second| second.offered).max().unwrap_or(0),
            found_ms: found.and_then(|found| u64::try_from(found.as_millis()).ok()),
            drained_s: drained.map(|(drained, found)| drained.saturating_sub(found).as_secs_f64()),
            recovers: story.drained.is_some(),
            lost: story.lost,
            succeeded: story.succeeded,
            free: story.free,
            story,
        }
    }
}

fn mean(of: impl Iterator<Item = u64>) -> u64 {
    let sum: u64 = of.sum();
    let count = PHASES.len() as u64;
    (sum + count / 2) / count
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

#[cfg(test)]
mod tests {
    use resurgam_core::gate::Breaker;
    use resurgam_core::retry::RetryPolicy;
    use resurgam_watchdog::test;

    use super::*;

    /// Five attempts in a quarter of a minute, as in the drill.
    fn world(gate: Option<Gate>) -> World {
        let policy = RetryPolicy::exponential(Duration::from_secs(1)).max_attempts(5);
        World {
            policy: policy.check().unwrap(),
            gate,
            rate: 200.0,
            calls: None,
            capacity: 300.0,
            refusal: 0.3,
            before: Duration::from_secs(20),
            outage: Duration::from_secs(120),
            slots: 256,
            phase: Duration::ZERO,
        }
    }

    /// A gate judges the last whole second and what followed, so it notices soonest an outage that
    /// begins in the middle of one: after half a second, on average after three quarters.
    #[test]
    fn how_soon_a_gate_notices_depends_on_when_within_a_second_the_outage_begins() {
        let gate = Some(Gate::new().breaker(Breaker::new()));
        // It refuses nothing when it is back.
        let outage = Duration::from_secs(60);
        let world = World { capacity: 1_000.0, outage, ..world(gate) };
        let futile = |phase| {
            let phase = Duration::from_millis(phase);
            Told::of(&World { phase, ..world.clone() }).futile
        };
        let per_second = 200.0;
        let after = |seconds: f64| (seconds * per_second) as u64;
        // What probes come to is the same for all.
        let probes = futile(0) - after(1.0);
        assert!(probes <= 30, "{probes}");
        for (phase, seconds) in [(125, 0.875), (500, 0.5), (875, 0.875)] {
            let early = futile(phase).abs_diff(after(seconds) + probes);
            assert!(early <= 15, "{phase}: {}", futile(phase));
        }
        let told = Told::over_phases(&world);
        assert!(told.futile.abs_diff(after(0.75) + probes) <= 15, "{told:?}");
        assert!(told.futile_least < told.futile && told.futile < told.futile_most);
    }

    #[test]
    fn an_outage_begins_as_far_within_a_second_as_is_asked_for() {
        let millis = Duration::from_millis;
        for (phase, before, begins) in [(250, 20_000, 250), (250, 1_400, 850), (0, 1_000, 0)] {
            let began = begins_at(millis(phase), millis(before));
            assert_eq!(began, millis(begins), "{phase} {before}");
        }
    }

    #[test]
    fn a_gate_loses_no_call_and_asks_in_vain_for_few() {
        let gate = Gate::new().breaker(Breaker::new());
        let [without, with] = [None, Some(gate)].map(|gate| Told::of(&world(gate)));
        assert!(without.lost > 10_000 && without.futile > 50_000, "{without:?}");
        assert_eq!(with.lost, 0);
        assert!(with.futile * 20 < without.futile, "{}", with.futile);
        assert!(with.recovers && with.offered_per_s <= 450.0, "{}", with.offered_per_s);
        // What waited is served beside what goes on coming.
        let shortest = with.waiting as f64 / 100.0;
        assert!(with.drained_s.unwrap() <= 1.5 * shortest, "{:?} {shortest}", with.drained_s);
    }

    #[test]
    fn calls_that_never_give_up_may_keep_a_dependency_down() {
        let policy = RetryPolicy::fixed(Duration::from_secs(1)).unlimited();
        let outage = Duration::from_secs(30);
        let few = World { rate: 20.0, capacity: 30.0, refusal: 0.9, outage, ..world(None) };
        let told = Told::of(&World { policy: policy.check().unwrap(), ..few });
        assert!(!told.recovers && told.offered_peak > 500, "{told:?}");
    }

    #[test]
    fn the_same_world_gives_the_same_story() {
        let gate = || Some(Gate::new().breaker(Breaker::new()));
        let [one, other] = [gate(), gate()].map(|gate| world(gate).story());
        assert_eq!(one.seconds, other.seconds);
    }

    #[test]
    fn a_number_of_calls_ends_by_itself() {
        let world = World { calls: Some(5_000), ..world(None) };
        let story = world.story();
        assert_eq!(story.succeeded + story.lost, 5_000);
    }
}
