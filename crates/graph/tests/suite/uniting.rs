//! When branches come together: exactly once for each state of the target, however they ended.

use std::time::Duration;

use resurgam::Failure;
use resurgam_graph::RunStatus;
use resurgam_testing::TestApp;
use resurgam_watchdog::test;
use serde_json::{Value, json};

use crate::common::{app, count, graph, lines, node, node_with, run, uniting};

/// How a branch ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Ok,
    Err,
    Prune,
}

/// Two branches below the root, the second of which ends later.
async fn two_branches(first: End, second: End, strategy: &str) -> resurgam_graph::Listing {
    let branch = |end: End, later: u64| {
        move |ctx: resurgam_sdk::ActivityContext,
              _|
              -> std::pin::Pin<
            Box<dyn Future<Output = Result<resurgam::Payload, Failure>> + Send>,
        > {
            Box::pin(async move {
                ctx.sleep(Duration::from_secs(later)).await;
                match end {
                    End::Ok => Ok(resurgam::Payload::from_text("{}")),
                    End::Err => Err(Failure::new("broken")),
                    End::Prune => Err(Failure::prune()),
                }
            })
        }
    };
    let app = app()
        .action("R", |_, _| Ok(json!({})))
        .activity_definition(resurgam_sdk::ActivityDefinition::new("A", branch(first, 1)))
        .activity_definition(resurgam_sdk::ActivityDefinition::new("B", branch(second, 2)))
        .action("U", |_, _| Ok(json!({})))
        .start()
        .await;
    let nodes = [
        node("r", &["a", "b"]),
        node("a", &["u"]),
        node("b", &["u"]),
        uniting("u", "r", strategy, &[]),
    ];
    run(&app, &graph(&nodes)).await
}

#[test]
async fn all_done_unites_once_however_the_branches_ended() {
    let ends = [End::Ok, End::Err, End::Prune];
    for first in ends {
        for second in ends {
            let listing = two_branches(first, second, "ALL_DONE").await;
            assert_eq!(count(&listing, "u"), 1, "{first:?} {second:?}");
            let failed = first == End::Err || second == End::Err;
            let expected = if failed { RunStatus::Failed } else { RunStatus::Success };
            assert_eq!(listing.run_status, expected, "{first:?} {second:?}");
        }
    }
}

#[test]
async fn all_success_unites_only_when_every_branch_succeeded() {
    let ends = [End::Ok, End::Err, End::Prune];
    for first in ends {
        for second in ends {
            let listing = two_branches(first, second, "ALL_SUCCESS").await;
            let all = (first, second) == (End::Ok, End::Ok);
            assert_eq!(count(&listing, "u"), usize::from(all), "{first:?} {second:?}");
            let failed = first == End::Err || second == End::Err;
            let expected = if failed { RunStatus::Failed } else { RunStatus::Success };
            assert_eq!(listing.run_status, expected, "{first:?} {second:?}");
        }
    }
}

/// An app whose nodes return what they are given, all at once.
async fn echo(names: &[&str]) -> TestApp {
    let app = names.iter().fold(app(), |app, name| {
        app.action(name, |mut args, _| {
            args.as_object_mut().unwrap().remove("$node");
            match args.get("fan").and_then(Value::as_str) {
                Some(count) => {
                    Ok((0..count.parse().unwrap()).map(|i: u32| json!({"i": i})).collect())
                }
                None => Ok(args),
            }
        })
    });
    app.start().await
}

#[test]
async fn a_branch_that_is_retried_is_waited_for() {
    let app = app()
        .action("R", |_, _| Ok(json!([{"i": 0}, {"i": 1}])))
        .action(
            "A",
            |_, attempt| if attempt < 3 { Err(Failure::new("down")) } else { Ok(json!({})) },
        )
        .action("B", |_, _| Ok(json!({})))
        .action("U", |_, _| Ok(json!({})))
        .start()
        .await;
    let mut template = graph(&[
        node("r", &["a", "b"]),
        node("a", &[]),
        node("b", &["u"]),
        uniting("u", "r", "ALL_SUCCESS", &[]),
    ]);
    template["retry_policy"] = json!({"max_retries": 2});
    let listing = run(&app, &template).await;
    // Once for each state of the target, after the branch that does not even lead to it.
    assert_eq!(count(&listing, "u"), 2);
    let last = listing.states.iter().rev().take(2).map(|row| row.identifier.as_str());
    assert_eq!(last.collect::<Vec<_>>(), ["u", "u"]);
}

#[test]
async fn a_node_that_unites_on_the_fan_out_itself_runs_for_each_of_its_states() {
    let app = echo(&["R", "W", "U"]).await;
    let listing = run(
        &app,
        &graph(&[
            node_with("r", json!({"fan": "3"}), &["w"]),
            node_with("w", json!({"x": "${{ r.outputs.i }}"}), &["u"]),
            {
                let mut unites = uniting("u", "r", "ALL_SUCCESS", &[]);
                unites["inputs"] =
                    json!({"all": "${{ w.outputs.x[*] }}", "own": "${{ r.outputs.i }}"});
                unites
            },
        ]),
    )
    .await;
    let mut collected: Vec<_> = listing
        .states
        .iter()
        .filter(|row| row.identifier == "u")
        .map(|row| (row.inputs["own"].clone(), row.inputs["all"].clone()))
        .collect();
    collected.sort();
    let expected = [("0", "[\"0\"]"), ("1", "[\"1\"]"), ("2", "[\"2\"]")]
        .map(|(own, all)| (own.to_string(), all.to_string()));
    assert_eq!(collected, expected);
}

#[test]
async fn what_unites_deeper_goes_first() {
    let app = echo(&["R", "F", "G", "V", "U"]).await;
    let mut inner = uniting("v", "f", "ALL_SUCCESS", &["u"]);
    inner["inputs"] = json!({"sum": "${{ g.outputs.i[*] }}"});
    let mut outer = uniting("u", "r", "ALL_SUCCESS", &[]);
    outer["inputs"] = json!({"all": "${{ v.outputs.sum[*] }}", "flat": "${{ g.outputs.i[*] }}"});
    let listing = run(
        &app,
        &graph(&[
            node("r", &["f"]),
            node_with("f", json!({"fan": "2"}), &["g"]),
            node_with("g", json!({"fan": "3"}), &["v"]),
            inner,
            outer,
        ]),
    )
    .await;
    assert_eq!((count(&listing, "g"), count(&listing, "v"), count(&listing, "u")), (6, 2, 1));
    let last = &listing.states.last().unwrap().inputs;
    assert_eq!(last["all"], r#"["[0,1,2]","[0,1,2]"]"#);
    assert_eq!(last["flat"], "[0,1,2,0,1,2]");
}

#[test]
async fn two_nodes_that_unite_on_the_same_target_do_not_wait_for_each_other() {
    let app = app()
        .action("R", |_, _| Ok(json!({})))
        .action("A", |_, _| Ok(json!({})))
        .action("U", |_, _| Err(Failure::new("broken")))
        .action("V", |_, _| Ok(json!({})))
        .start()
        .await;
    let listing = run(
        &app,
        &graph(&[
            node("r", &["a"]),
            node("a", &["u", "v"]),
            uniting("u", "r", "ALL_SUCCESS", &[]),
            uniting("v", "r", "ALL_SUCCESS", &[]),
        ]),
    )
    .await;
    assert_eq!(lines(&listing), ["r SUCCESS 0", "a SUCCESS 0", "u ERRORED 0", "v SUCCESS 0"]);
}

#[test]
async fn a_node_that_unites_after_another_one_on_the_same_target_waits_for_it() {
    let app = echo(&["R", "A", "U", "C", "V"]).await;
    let listing = run(
        &app,
        &graph(&[
            node("r", &["a"]),
            node("a", &["u"]),
            uniting("v", "r", "ALL_DONE", &[]),
            uniting("u", "r", "ALL_DONE", &["c"]),
            node("c", &["v"]),
        ]),
    )
    .await;
    assert_eq!(
        lines(&listing),
        ["r SUCCESS 0", "a SUCCESS 0", "u SUCCESS 0", "c SUCCESS 0", "v SUCCESS 0"]
    );
}

#[test]
async fn a_target_without_branches_unites_at_once() {
    let app = echo(&["R", "U"]).await;
    let listing =
        run(&app, &graph(&[node("r", &["u"]), uniting("u", "r", "ALL_SUCCESS", &[])])).await;
    assert_eq!(lines(&listing), ["r SUCCESS 0", "u SUCCESS 0"]);
}

#[test]
async fn a_target_that_failed_unites_nothing() {
    let app = app().action("R", |_, _| Err(Failure::new("broken"))).start().await;
    let listing = run(&app, &graph(&[node("r", &["u"]), uniting("u", "r", "ALL_DONE", &[])])).await;
    assert_eq!(lines(&listing), ["r ERRORED 0"]);
}

#[test]
async fn a_uniting_node_without_inputs_fails_its_target() {
    let app = echo(&["R", "A"]).await;
    let mut unites = uniting("u", "r", "ALL_SUCCESS", &[]);
    unites["inputs"] = json!({"x": "${{ r.outputs.nothing }}"});
    let listing = run(&app, &graph(&[node("r", &["a"]), node("a", &["u"]), unites])).await;
    assert_eq!(lines(&listing), ["r NEXT_CREATED_ERROR 0", "a SUCCESS 0"]);
    assert_eq!(listing.run_status, RunStatus::Failed);
}

#[test]
async fn a_uniting_node_without_inputs_keeps_no_other_one_from_uniting() {
    let app = echo(&["R", "A", "V"]).await;
    let mut unites = uniting("u", "r", "ALL_SUCCESS", &[]);
    unites["inputs"] = json!({"x": "${{ r.outputs.nothing }}"});
    let other = uniting("v", "r", "ALL_SUCCESS", &[]);
    let listing = run(&app, &graph(&[node("r", &["a"]), node("a", &["u"]), unites, other])).await;
    assert_eq!(lines(&listing), ["r NEXT_CREATED_ERROR 0", "a SUCCESS 0", "v SUCCESS 0"]);
}

#[test]
async fn what_is_collected_is_in_the_order_of_the_fan_out_and_not_of_the_results() {
    let app = app()
        .action("R", |_, _| Ok(json!({})))
        .action("F", |_, _| Ok((0..4).map(|i| json!({"i": i})).collect()))
        .activity_definition(resurgam_sdk::ActivityDefinition::new("W", |ctx, input| {
            Box::pin(async move {
                let args: Value = input.decode()?;
                let place: u64 = args["i"].as_str().unwrap().parse()?;
                ctx.sleep(Duration::from_secs(10 - place)).await;
                if place == 2 {
                    return Err(Failure::new("broken"));
                }
                Ok(resurgam::Payload::encode(&if place == 3 {
                    json!({})
                } else {
                    json!({"n": place})
                })?)
            })
        }))
        .action("X", |args, _| Ok(json!({"n": args["n"]})))
        .action("U", |_, _| Ok(json!({})))
        .start()
        .await;
    let mut unites = uniting("u", "r", "ALL_DONE", &[]);
    unites["inputs"] = json!({"w": "${{ w.outputs.n[*] }}", "x": "${{ x.outputs.n[*] }}"});
    let listing = run(
        &app,
        &graph(&[
            node("r", &["f"]),
            node("f", &["w"]),
            node_with("w", json!({"i": "${{ f.outputs.i }}"}), &["x"]),
            node_with("x", json!({"n": "<${{ f.outputs.i }}>"}), &["u"]),
            unites,
        ]),
    )
    .await;
    let last = &listing.states.last().unwrap().inputs;
    // The one that failed is left out; the one without the field is null.
    assert_eq!(last["w"], "[0,1,null]");
    assert_eq!(last["x"], r#"["<0>","<1>","<3>"]"#);
}
