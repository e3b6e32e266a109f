//! Runs simulations from the command line.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use resurgam_simulator::{Counts, Fault, Plan, Report, Wishes, last_events, minimise, simulate};

/// Runs the engine on a simulated database under every fault, from a seed.
#[derive(Parser)]
#[command(name = "resurgam-simulator")]
struct Arguments {
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds, each one more than the one before.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Goes on with further seeds until nodes were given so many inputs.
    #[arg(long)]
    inputs: Option<u64>,
    /// For how many simulated hours things go wrong; by default the seed says.
    #[arg(long, value_parser = hours)]
    hours: Option<Duration>,
    /// How many processes there are; by default the seed says.
    #[arg(long)]
    nodes: Option<usize>,
    /// What goes wrong: all, none, or a list such as kill,set-back; by default the seed says.
    #[arg(long, value_parser = faults)]
    faults: Option<BTreeSet<Fault>>,
    /// On a violation, leaves out faults and instances for as long as it still fails.
    #[arg(long)]
    minimise: bool,
    /// Prints everything that happens, and with `--minimise` once more with what is left.
    #[arg(long)]
    trace: bool,
    /// Prints what nodes log, too.
    #[arg(long)]
    log: bool,
}

fn hours(text: &str) -> Result<Duration, String> {
    let hours: f64 = text.parse().map_err(|_| format!("{text} is not a number of hours"))?;
    Duration::try_from_secs_f64(hours * 3_600.0).map_err(|error| error.to_string())
}

fn faults(list: &str) -> Result<BTreeSet<Fault>, String> {
    match list {
        "all" => Ok(Fault::ALL.into_iter().collect()),
        "none" => Ok(BTreeSet::new()),
        list => list
            .split(',')
            .map(|name| {
                let known = Fault::ALL.map(Fault::name).join(", ");
                Fault::named(name).ok_or(format!("no fault is called {name}; there are {known}"))
            })
            .collect(),
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.log {
        tracing_subscriber::fmt().without_time().with_writer(std::io::stderr).init();
    }
    let wishes = Wishes {
        nodes: arguments.nodes,
        trouble: arguments.hours,
        faults: arguments.faults.clone(),
    };
    let began = Instant::now();
    let (mut counts, mut inputs, mut simulated) = (Counts::default(), 0, Duration::ZERO);
    let mut seed = arguments.seed;
    loop {
        let plan = Plan::new(seed, &wishes);
        let report = match arguments.trace {
            true => {
                let (report, trace) = resurgam_simulator::simulate_traced(&plan);
                print!("{trace}");
                report
            }
            false => simulate(&plan),
        };
        if report.violation.is_some() {
            tell(&report, &plan, &arguments);
            return ExitCode::FAILURE;
        }
        if arguments.seeds == 1 && arguments.inputs.is_none() {
            println!("{report}");
        }
        counts.add_all(&report.counts);
        inputs += report.inputs;
        simulated += report.simulated;
        seed += 1;
        let enough = match arguments.inputs {
            Some(wanted) => inputs >= wanted,
            None => seed >= arguments.seed + arguments.seeds,
        };
        if enough {
            break;
        }
    }
    let took = began.elapsed().as_secs_f64();
    println!(
        "seeds {} to {}: no promise was broken; {:.0} simulated hours, {inputs} inputs in {took:.1} \
         s ({:.0} per second)\n{counts}",
        arguments.seed,
        seed - 1,
        simulated.as_secs_f64() / 3_600.0,
        inputs as f64 / took,
    );
    ExitCode::SUCCESS
}

/// What a person needs to find out why.
fn tell(report: &Report, plan: &Plan, arguments: &Arguments) {
    let minimised = arguments.minimise;
    println!("{report}");
    let Some(violation) = &report.violation else { return };
    let least = if minimised { minimise(plan) } else { plan.clone() };
    if minimised {
        let faults: Vec<&str> = least.faults.iter().map(|fault| fault.name()).collect();
        println!(
            "it still fails with {} of {} instances and these faults: {}",
            least.instances - least.without.len(),
            least.instances,
            faults.join(",")
        );
    }
    let again = simulate(&least);
    let violation = again.violation.as_ref().unwrap_or(violation);
    if minimised && arguments.trace {
        println!("{}", resurgam_simulator::simulate_traced(&least).1);
    }
    println!("{violation}\n\n{}", last_events(&least, violation));
}
