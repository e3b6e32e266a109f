//! `delete`: what is closed goes, and nothing else.

use resurgam_watchdog::test;
use serde_json::{Value, json};

use crate::work::support::Place;

/// A place with `a` and `b`, which completed, `c`, which failed, and `o`, which is open.
fn place() -> Place {
    let place = Place::new();
    place.write("one.rap", "fn main(input: [], output: [r]):\n    return 1\n");
    place.write("bad.rap", "fn main(input: [], output: [r]):\n    return @bad()\n");
    place.action("bad", "exit 1");
    assert_eq!(place.run(&["run", "one.rap", "--id", "a"]).code, Some(0));
    assert_eq!(place.run(&["run", "one.rap", "--id", "b"]).code, Some(0));
    assert_eq!(place.run(&["run", "bad.rap", "--id", "c"]).code, Some(1));
    assert_eq!(place.run(&["start", "one.rap", "--id", "o"]).code, Some(0));
    place
}

fn ids(place: &Place) -> Vec<String> {
    let list = place.json(&["list"]);
    let rows = list.as_array().unwrap().iter();
    rows.map(|row| row["id"].as_str().unwrap().to_string()).collect()
}

#[test(minutes = 15)]
pub(super) fn one_closed_instance_is_deleted_by_its_id_and_an_open_one_is_refused() {
    let place = place();
    let open = place.run(&["delete", "o"]);
    let message = "error: E5 delete o: the instance is open (running); cancel it first\n";
    assert_eq!((open.code, open.stderr.as_str()), (Some(2), message));
    let open = place.run(&["delete", "o", "--dry-run"]);
    assert_eq!((open.code, open.stderr.contains("the instance is open")), (Some(2), true));
    assert_eq!(place.json(&["delete", "a", "--dry-run"]), json!({"would_delete": 1}));
    assert_eq!(ids(&place), ["o", "c", "b", "a"]);
    let gone = place.run(&["delete", "a"]);
    assert_eq!((gone.code, gone.stdout.as_str()), (Some(0), "a is deleted\n"));
    assert_eq!(ids(&place), ["o", "c", "b"]);
    let again = place.run(&["delete", "a", "--json"]).json_with(2);
    let message = &again["errors"][0]["message"];
    assert_eq!(message, "delete a: there is no instance of this id");
    assert_eq!(place.run(&["show", "a"]).code, Some(2));
}

#[test(minutes = 15)]
pub(super) fn many_are_deleted_by_what_they_are_and_counted_before() {
    let place = place();
    let count = |args: &[&str]| -> Value {
        let dry = place.json(&[&["delete", "--dry-run"], args].concat());
        dry["would_delete"].clone()
    };
    assert_eq!(count(&["--all"]), 3);
    assert_eq!(count(&["--status", "completed"]), 2);
    assert_eq!(count(&["--status", "completed", "--status", "failed"]), 3);
    assert_eq!(count(&["--workflow", "bad"]), 1);
    assert_eq!(count(&["--older-than", "1h"]), 0);
    assert_eq!(count(&["--tag", "customer=ada"]), 0);
    assert_eq!(ids(&place).len(), 4, "counting deletes nothing");
    let young = place.run(&["delete", "--status", "completed", "--older-than", "1h"]);
    assert_eq!(young.stdout, "0 instances deleted\n");
    let old = place.run(&["delete", "--workflow", "bad", "--older-than", "0s"]);
    assert_eq!(old.stdout, "1 instance deleted\n", "{old:?}");
    assert_eq!(place.json(&["delete", "--all"]), json!({"deleted": 2}));
    assert_eq!(ids(&place), ["o"]);
}

#[test(minutes = 15)]
fn nobody_deletes_everything_by_leaving_something_out() {
    let place = place();
    let refused = place.run(&["delete", "--json"]).json_with(2);
    assert_eq!(refused["errors"][0]["message"], "delete: nobody says which instances");
    for args in [
        &["delete", "a", "--all"][..],
        &["delete", "--status", "running"],
        &["delete", "--older-than", "7"],
        &["delete", "--tag", "customer"],
    ] {
        assert_eq!(place.run(args).code, Some(2), "{args:?}");
    }
    assert_eq!(ids(&place).len(), 4);
}
