//! The programs in `examples/ir` are in order, and run.

use std::path::{Path, PathBuf};

use resurgam::Failure;
use resurgam_ir::{Program, format};
use resurgam_watchdog::test;
use serde_json::json;

use crate::support::{builder, start};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/ir")
}

fn example(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap()
}

#[test]
fn every_example_is_checked_formatted_and_has_its_actions() {
    let mut found = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "rap") {
            continue;
        }
        found += 1;
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = example(&name);
        let program = match Program::read(&name, &text, None) {
            Ok(program) => program,
            Err(errors) => panic!("{errors}"),
        };
        assert_eq!(format(&name, &text, None).unwrap(), text, "{name} is formatted");
        for action in program.actions() {
            let nested = action.name.replace('.', "/");
            assert!(folder().join("actions").join(&nested).exists(), "{name}: {}", action.name);
        }
    }
    assert!(found >= 3, "{found}");
}

#[test]
async fn an_order_is_shipped_after_a_retry_and_given_back_when_the_card_is_declined() {
    for (declined, status, released) in [(false, "shipped", 0), (true, "declined", 2)] {
        let app = builder()
            .action("reserve", |args, _| Ok(args["item"].clone()))
            .action("release", |_, _| Ok(json!(true)))
            .action("ship", |_, _| Ok(json!("t-1")))
            .action("charge", move |_, attempt| match (declined, attempt) {
                (true, _) => Err(Failure::of_type("CardDeclined", "no").into_terminal()),
                (false, 1) => Err(Failure::of_type("RateLimited", "slow down")),
                (false, _) => Ok(json!({"id": "r-1"})),
            })
            .start()
            .await;
        let order = json!({"order": {"id": "o-1", "items": ["lamp", "desk"], "cents": 4200}});
        let summary = start(&app, &example("order.rap"), order).await.result().await.unwrap();
        assert_eq!(summary["status"], status);
        assert_eq!(app.attempts_of("release"), released);
    }
}

#[test]
async fn a_report_counts_what_cannot_be_had_as_nothing() {
    let app = builder()
        .action("metrics.fetch", |args, _| match args["name"].as_str() {
            Some("sales") => Ok(json!(1200)),
            _ => Err(Failure::of_type("KeyError", "no visits")),
        })
        .start()
        .await;
    let report = start(&app, &example("report.rap"), json!({"day": "monday"})).await;
    assert_eq!(report.result().await.unwrap(), json!({"day": "monday", "per_visit": null}));
    assert_eq!(app.attempts_of("metrics.fetch"), 3);
}
