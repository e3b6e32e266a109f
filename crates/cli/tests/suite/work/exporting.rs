//! `export`: histories that go to files.

use resurgam::Client;
use resurgam::prelude::*;
use resurgam_core::export::Export;
use resurgam_watchdog::test;
use serde_json::json;

use crate::work::support::Place;

#[test(minutes = 15)]
async fn an_exported_history_is_what_a_client_exports() {
    let place = Place::new();
    place.write("one.rap", "fn main(input: [], output: [r]):\n    return @one()\n");
    place.action("one", "cat");
    place.json(&["run", "one.rap", "--id", "x"]);
    let printed = place.run(&["export", "x"]);
    let client = Client::sqlite(place.path("test.db")).await.unwrap();
    let expected = client.export_history("x").await.unwrap().unwrap();
    client.close().await;
    assert_eq!((printed.code, printed.stdout.as_str()), (Some(0), expected.as_str()));
    let told = place.run(&["export", "x", "-o", "x.json"]);
    assert_eq!(told.stdout, "4 events of x are in x.json\n", "{told:?}");
    assert_eq!(place.text("x.json"), expected);
    assert_eq!(
        place.json(&["export", "x", "--run", "1", "--output", "first.json"]),
        json!({"id": "x", "file": "first.json", "runs": 1, "events": 4})
    );
    assert_eq!(Export::from_json(&place.text("first.json")), Export::from_json(&expected));

    let refused = |args: &[&str]| {
        let refused = place.run(&[args, &["--json"]].concat()).json_with(2);
        refused["errors"][0].clone()
    };
    let run = refused(&["export", "x", "--run", "2"]);
    assert_eq!(run["message"], "export run 2 of x: there is no such run");
    assert_eq!(run["hint"], "it has 1");
    let gone = refused(&["export", "nobody"]);
    assert_eq!(gone["message"], "export nobody: there is no instance of this id");
    let folder = refused(&["export", "x", "-o", "none/x.json"]);
    assert_eq!(folder["file"], "none/x.json");
}

#[workflow]
async fn count_down(ctx: WorkflowContext, from: u32) -> Result<u32, Failure> {
    match from {
        0 => Ok(0),
        _ => ctx.continue_as_new(count_down(from - 1)),
    }
}

#[test(minutes = 15)]
async fn one_run_of_several_is_exported_alone() {
    let place = Place::new();
    let app = App::builder().workflow(count_down).sqlite(place.path("test.db")).await.unwrap();
    app.start("c", count_down(2)).await.unwrap().result().await.unwrap();
    app.stop().await.unwrap();
    let exported = |args: &[&str]| {
        let printed = place.run(&[&["export", "c"], args].concat());
        Export::from_json(&printed.stdout).unwrap_or_else(|error| panic!("{error}: {printed:?}"))
    };
    let (all, second) = (exported(&[]), exported(&["--run", "2"]));
    assert_eq!(all.runs.len(), 3);
    assert_eq!(second.runs, [all.runs[1].clone()]);
    let refused = place.run(&["export", "c", "--run", "4"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.ends_with("there is no such run; it has 1, 2, 3\n"), "{refused:?}");
}
