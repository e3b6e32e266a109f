//! Processes that are killed at any instant: nothing that was done is done again, nothing is lost.

use std::time::Duration;

use resurgam_watchdog::test;

use crate::work::journal::{audit, expected, random};
use crate::work::support::Place;

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
