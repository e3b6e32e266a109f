//! Processes that are killed at any instant: nothing that was done is done again, nothing is lost.
//!
//! `RESURGAM_SEED` repeats the moments of the kills, as far as moments can be repeated.

use std::collections::BTreeMap;
use std::time::Duration;

use resurgam_watchdog::test;
use serde_json::{Value, json};

use crate::work::support::{Place, events};

/// The most kills of a test.
const KILLS: usize = 25;

const PROGRAM: &str = "\
fn main(input: [n], output: [r]):
    total = 0
    for i in range(n):
        total = total + @add(i=i) [retry: 5]
    rows = spread range(n):i -> @add(i=i) [retry: 5]
    return {\"total\": total, \"rows\": rows}
";

/// Fails now and then. A line in the journal for each attempt that begins.
const ADD: &str = "\
echo \"$RESURGAM_INSTANCE $RESURGAM_IDEMPOTENCY_KEY $RESURGAM_ATTEMPT\" >> journal
sleep 0.0$((RANDOM_DIGIT))
i=$(cat | tr -dc 0-9)
[ $(( (i + RESURGAM_ATTEMPT) % 4 )) = 0 ] && exit 1
echo $((i * i))";

fn place() -> Place {
    let place = Place::new();
    place.write("sum.rap", PROGRAM);
    let digit = "$(( $(od -An -N1 -tu1 /dev/urandom) % 10 ))";
    place.action("add", &ADD.replace("$((RANDOM_DIGIT))", digit));
    place
}

fn random() -> fastrand::Rng {
    let seed = std::env::var("RESURGAM_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("RESURGAM_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

/// The result without any trouble.
fn expected(n: u64) -> Value {
    let rows: Vec<u64> = (0..n).map(|i| i * i).collect();
    json!({"total": rows.iter().sum::<u64>(), "rows": rows})
}

/// Compares the journal with what was recorded about an instance.
fn audit(place: &Place, id: &str) -> usize {
    let history = place.json(&["history", id]);
    let attempts = place.json(&["attempts", id]);
    // The attempts that began, by the place of their call: the end of the idempotency key.
    let mut begun: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for line in place.text("journal").lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if words[0] == id {
            let seq = words[1].rsplit('/').next().unwrap().parse().unwrap();
            begun.entry(seq).or_default().push(words[2].parse().unwrap());
        }
    }
    let completed = events(&history, "ActivityCompleted");
    assert_eq!(completed.len(), events(&history, "ActivityScheduled").len());
    for done in &completed {
        let (seq, last) = (done["activity"].as_u64().unwrap(), done["attempt"].as_u64().unwrap());
        let begun = &begun[&seq];
        let mut distinct = begun.clone();
        distinct.dedup();
        assert_eq!(&distinct, begun, "an attempt of #{seq} began twice");
        assert_eq!(begun.last(), Some(&last), "#{seq} began again after it was recorded");
        for attempt in &begun[..begun.len() - 1] {
            let is_row = |row: &&Value| row["seq"] == seq && row["attempt"] == *attempt;
            let row = attempts.as_array().unwrap().iter().find(is_row);
            assert!(row.is_some(), "attempt {attempt} of #{seq} began and left no row");
        }
    }
    attempts.as_array().unwrap().iter().filter(|row| row["outcome"] == "lost").count()
}

#[test(minutes = 15)]
fn a_run_that_is_killed_again_and_again_ends_as_if_nothing_had_happened() {
    let (place, mut random) = (place(), random());
    let args = ["run", "sum.rap", "--id", "k", "--input", "{\"n\": 12}", "--json"];
    for _ in 0..KILLS {
        let mut run = place.begin(&args);
        // Lets it come to some point: it is killed wherever it happens to be then.
        std::thread::sleep(Duration::from_millis(random.u64(1..400)));
        if run.has_ended() {
            break;
        }
        run.kill();
    }
    let ended = place.run(&args).json_with(0);
    assert_eq!(ended["result"], expected(12));
    let lost = audit(&place, "k");
    println!("{lost} attempts were lost");
}

#[test(minutes = 15)]
fn workers_that_are_killed_again_and_again_finish_everything_once() {
    let (place, mut random) = (place(), random());
    let ids = ["a", "b", "c"];
    for id in ids {
        place.json(&["start", "sum.rap", "--id", id, "--input", "{\"n\": 9}"]);
    }
    let worker = || place.begin(&["worker", "--actions", "actions", "--slots", "6"]);
    let mut workers = [worker(), worker()];
    let is_done = || {
        let list = place.json(&["list", "--status", "running"]);
        list.as_array().unwrap().is_empty()
    };
    for _ in 0..KILLS {
        // Lets them come to some point: one is killed wherever it happens to be then.
        std::thread::sleep(Duration::from_millis(random.u64(1..500)));
        if is_done() {
            break;
        }
        let place = random.usize(0..2);
        std::mem::replace(&mut workers[place], worker()).kill();
    }
    for id in ids {
        let ended = place.run(&["watch", id, "--json"]).json_with(0);
        assert_eq!(ended["result"], expected(9));
        audit(&place, id);
    }
}
