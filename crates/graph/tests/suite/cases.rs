//! What graphs do, case by case, in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use expect_test::expect;
use resurgam::{Client, DeadLetterFilter, Failure};
use resurgam_graph::{RunStatus, Start, Status};
use resurgam_testing::TestApp;
use resurgam_watchdog::test;
use serde_json::{Map, Value, json};

use crate::common::{app, count, graph, lines, node, node_with, run, run_with, uniting};

fn fails(message: &'static str) -> impl Fn(Value, u32) -> Result<Value, Failure> {
    move |_, _| Err(Failure::new(message))
}

/// The delays between the states of a node that is tried again.
fn delays(listing: &resurgam_graph::Listing) -> Vec<i64> {
    let retried = listing.states.iter().skip(1);
    retried.map(|row| row.enqueue_after_ms - row.created_at_ms).collect()
}

#[test]
async fn the_default_policy_retries_three_times_with_doubling_delays() {
    let app = app().action("A", fails("down")).start().await;
    let mut template = graph(&[node("a", &[])]);
    template.as_object_mut().unwrap().remove("retry_policy");
    let listing = run(&app, &template).await;
    assert_eq!(listing.run_status, RunStatus::Failed);
    assert_eq!(
        lines(&listing),
        ["a RETRY_CREATED 0", "a RETRY_CREATED 1", "a RETRY_CREATED 2", "a ERRORED 3"]
    );
    assert_eq!(delays(&listing), [2_000, 4_000, 8_000]);
    assert!(listing.states.iter().all(|row| row.error.as_deref() == Some("down")));
    assert_eq!(app.attempts_of("A"), 4);
}

#[test]
async fn every_strategy_has_its_delays() {
    for (strategy, expected) in [
        ("EXPONENTIAL", [2_000, 4_000, 8_000, 16_000]),
        ("LINEAR", [2_000, 4_000, 6_000, 8_000]),
        ("FIXED", [2_000, 2_000, 2_000, 2_000]),
    ] {
        let app = app().action("A", fails("down")).start().await;
        let mut template = graph(&[node("a", &[])]);
        template["retry_policy"] = json!({"max_retries": 4, "strategy": strategy});
        assert_eq!(delays(&run(&app, &template).await), expected, "{strategy}");
    }
}

#[test]
async fn jitter_stays_within_its_bounds_and_below_the_cap() {
    let app = app().action("A", fails("down")).start().await;
    let mut template = graph(&[node("a", &[])]);
    template["retry_policy"] = json!({
        "max_retries": 40, "strategy": "EXPONENTIAL_EQUAL_JITTER", "max_delay": 10_000,
    });
    let delays = delays(&run(&app, &template).await);
    assert_eq!(delays.len(), 40);
    assert!((1_000..=2_000).contains(&delays[0]), "{delays:?}");
    // Half of 16 s is 8 s, so the fourth is drawn from 8 to 16 s and then cut to 10 s.
    assert!(delays[3..].iter().all(|delay| (8_000..=10_000).contains(delay)), "{delays:?}");
    assert_eq!(delays[39], 10_000);

    // Capped before the jitter, delays spread for ever.
    template["retry_policy"]["cap"] = json!("before");
    let app = crate::common::app().action("A", fails("down")).start().await;
    let delays = self::delays(&run(&app, &template).await);
    assert!(delays[3..].iter().all(|delay| (5_000..=10_000).contains(delay)), "{delays:?}");
    assert!(delays[10..].iter().any(|delay| *delay < 9_000), "{delays:?}");
}

#[test]
async fn retries_are_counted_right_although_the_ledger_keeps_only_some() {
    let app = app().action("A", fails("down")).start().await;
    let mut template = graph(&[node("a", &[])]);
    template["retry_policy"] = json!({"max_retries": 1_500, "strategy": "FIXED"});
    let listing = run(&app, &template).await;
    let last = listing.states.last().unwrap();
    assert_eq!((last.retry_count, last.state), (1_500, Status::Errored));
    let counts: Vec<u32> = listing.states.iter().map(|row| row.retry_count).collect();
    assert!(counts.is_sorted() && counts[..10] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert!((990..1_500).contains(&counts.len()), "{}", counts.len());
}

#[test]
async fn one_retry_and_two_failures_fail_the_run() {
    let app = app().action("A", |_, attempt| Err(Failure::new(format!("try {attempt}"))));
    let app = app.start().await;
    let mut template = graph(&[node("a", &["b"]), node("b", &[])]);
    template["retry_policy"] = json!({"max_retries": 1});
    let listing = run(&app, &template).await;
    assert_eq!(listing.run_status, RunStatus::Failed);
    assert_eq!(lines(&listing), ["a RETRY_CREATED 0", "a ERRORED 1"]);
    let errors: Vec<_> = listing.states.iter().map(|row| row.error.as_deref().unwrap()).collect();
    assert_eq!(errors, ["try 1", "try 2"]);
}

#[test]
async fn a_fan_out_of_three_unites_once_before_the_fan_out() {
    let app = app()
        .action("R", |_, _| Ok(json!({"name": "root"})))
        .action("F", |_, _| Ok(json!([{"n": 1}, {"n": 2}, {"n": 3}])))
        .action("W", |args, _| Ok(json!({"twice": format!("{0}{0}", args["n"].as_str().unwrap())})))
        .action("U", |args, _| Ok(args));
    let app = app.start().await;
    let mut unites = uniting("u", "r", "ALL_SUCCESS", &[]);
    unites["inputs"] = json!({"from": "${{ r.outputs.name }}", "all": "${{ w.outputs.twice[*] }}"});
    let listing = run(
        &app,
        &graph(&[
            node("r", &["f"]),
            node("f", &["w"]),
            node_with("w", json!({"n": "${{ f.outputs.n }}"}), &["u"]),
            unites,
        ]),
    )
    .await;
    assert_eq!(listing.run_status, RunStatus::Success);
    assert_eq!(
        lines(&listing),
        [
            "r SUCCESS 0",
            "f SUCCESS 0",
            "f SUCCESS 0",
            "f SUCCESS 0",
            "w SUCCESS 0",
            "w SUCCESS 0",
            "w SUCCESS 0",
            "u SUCCESS 0"
        ]
    );
    let fanned: Vec<_> =
        listing.states[1..4].iter().map(|row| row.outputs.clone().unwrap()["n"].clone()).collect();
    assert_eq!(fanned, [json!(1), json!(2), json!(3)]);
    let last = &listing.states[7].inputs;
    assert_eq!((last["from"].as_str(), last["all"].as_str()), ("root", r#"["11","22","33"]"#));
}

#[test]
async fn a_snooze_puts_the_same_state_back_without_counting() {
    let app = app().action("A", |_, attempt| match attempt {
        1 | 2 => Err(Failure::snooze(Duration::from_secs(5))),
        3 => Err(Failure::new("broken")),
        _ => Ok(json!({})),
    });
    let app = app.start().await;
    let begun = app.now().as_millis();
    let mut template = graph(&[node("a", &[])]);
    template["retry_policy"] = json!({"max_retries": 1});
    let listing = run(&app, &template).await;
    assert_eq!(listing.run_status, RunStatus::Success);
    assert_eq!(lines(&listing), ["a RETRY_CREATED 0", "a SUCCESS 1"]);
    let times: Vec<_> = listing
        .states
        .iter()
        .map(|row| (row.created_at_ms - begun, row.enqueue_after_ms - begun))
        .collect();
    // Twice 5 s on the first state; then the one retry, 2 s after the failure.
    assert_eq!(times, [(0, 10_000), (10_000, 12_000)]);
    assert_eq!(app.attempts_of("A"), 4);
}

#[test]
async fn a_prune_on_the_second_attempt_ends_the_branch_without_failing() {
    let app = app().action("A", |_, attempt| match attempt {
        1 => Err(Failure::new("broken")),
        _ => Err(Failure::prune()),
    });
    let app = app.start().await;
    let mut template = graph(&[node("a", &["b"]), node("b", &[])]);
    template["retry_policy"] = json!({"max_retries": 5});
    let listing = run(&app, &template).await;
    assert_eq!(listing.run_status, RunStatus::Success);
    assert_eq!(lines(&listing), ["a RETRY_CREATED 0", "a PRUNED 1"]);
    assert_eq!(listing.states[1].error, None);
    assert_eq!(app.attempts_of("A"), 2);
}

#[test]
async fn a_terminal_failure_is_not_retried_although_the_policy_would() {
    let app = app().action("A", |_, _| Err(Failure::terminal("never"))).start().await;
    let mut template = graph(&[node("a", &[])]);
    template["retry_policy"] = json!({"max_retries": 5});
    assert_eq!(lines(&run(&app, &template).await), ["a ERRORED 0"]);
}

#[test]
async fn a_node_has_a_policy_and_a_timeout_of_its_own() {
    let app = app().action("A", |_, _| Ok(json!({}))).action("B", fails("down")).start().await;
    let mut patient = node("b", &[]);
    patient["retry_policy"] = json!({"max_retries": 2, "strategy": "FIXED", "backoff_factor": 7});
    let listing = run(&app, &graph(&[node("a", &["b"]), patient])).await;
    assert_eq!(count(&listing, "b"), 3);
    assert_eq!(listing.states[3].enqueue_after_ms - listing.states[3].created_at_ms, 7);
}

#[test]
async fn a_node_that_hangs_is_timed_out_and_retried() {
    let hang = resurgam_sdk::ActivityDefinition::new("A", |ctx, _| {
        Box::pin(async move {
            resurgam_testing::never(&ctx).await;
            Ok(resurgam::Payload::null())
        })
    });
    let app = app().activity_definition(hang).start().await;
    let begun = app.now().as_millis();
    let mut slow = node("a", &[]);
    slow["timeout"] = json!("30s");
    slow["retry_policy"] = json!({"max_retries": 1, "strategy": "FIXED", "backoff_factor": 1_000});
    let listing = run(&app, &graph(&[slow])).await;
    assert_eq!(lines(&listing), ["a RETRY_CREATED 0", "a ERRORED 1"]);
    assert_eq!(listing.states[1].enqueue_after_ms - begun, 31_000);
}

#[test]
async fn the_store_and_earlier_outputs_are_put_into_inputs() {
    let app = app()
        .action("A", |_, _| Ok(json!({"n": 5, "list": [1, {"x": null}], "text": "t", "no": false})))
        .action("B", |args, _| Ok(args))
        .action("C", |_, _| Ok(Value::Null));
    let app = app.start().await;
    let mut template = graph(&[
        node_with("a", json!({"greeting": "Hello ${{store.name}}", "kept": "as it is"}), &["b"]),
        node_with(
            "b",
            json!({"all": "${{a.outputs.n}}/${{ a.outputs.list }}/${{a.outputs.text}}/${{a.outputs.no}}"}),
            &["c"],
        ),
        node_with("c", json!({"mixed": "<${{ store.mood }}> ${{ a.outputs.text }}"}), &[]),
    ]);
    template["store_config"] = json!({"required_keys": ["name"], "default_values": {"mood": true}});
    let start = Start {
        inputs: json!({"kept": "changed by ${{ store.name }}", "unknown": "x"})
            .as_object()
            .unwrap()
            .clone(),
        store: json!({"name": "Ada"}).as_object().unwrap().clone(),
        ..Start::default()
    };
    let listing = run_with(&app, &template, &start).await;
    let inputs: Vec<Value> = listing.states.iter().map(|row| json!(row.inputs)).collect();
    assert_eq!(
        inputs,
        [
            json!({"greeting": "Hello Ada", "kept": "changed by Ada"}),
            json!({"all": r#"5/[1,{"x":null}]/t/false"#}),
            json!({"mixed": "<True> t"}),
        ]
    );
    assert_eq!(listing.states[2].outputs, Some(Map::new()));
}

#[test]
async fn a_field_that_was_not_returned_fails_the_state_before() {
    let app = app().action("A", |_, _| Ok(json!({"y": 1}))).action("C", |_, _| Ok(json!({})));
    let app = app.start().await;
    let listing = run(
        &app,
        &graph(&[
            node("a", &["b", "c"]),
            node_with("b", json!({"x": "${{ a.outputs.x }}"}), &[]),
            node("c", &[]),
        ]),
    )
    .await;
    assert_eq!(listing.run_status, RunStatus::Failed);
    assert_eq!(lines(&listing), ["a NEXT_CREATED_ERROR 0"]);
    let error = listing.states[0].error.as_deref();
    assert_eq!(error, Some("Input x of node b depends on x of a, which it did not return"));
}

#[test]
async fn inputs_too_large_for_a_call_fail_the_state_before() {
    let app = app().action("A", |_, _| Ok(json!({"x": "\u{1}".repeat(200_000)}))).start().await;
    let listing = run(
        &app,
        &graph(&[
            node("a", &["b"]),
            node_with("b", json!({"x": "${{a.outputs.x}}${{a.outputs.x}}"}), &[]),
        ]),
    )
    .await;
    assert_eq!(lines(&listing), ["a NEXT_CREATED_ERROR 0"]);
    assert!(listing.states[0].error.as_deref().unwrap().contains("are larger than the"));
}

#[test]
async fn outputs_that_are_no_objects_are_a_failure() {
    for (output, what) in [
        (json!("text"), "not a text"),
        (json!(5), "not a number"),
        (json!([{}, 5]), "not a list with a number in it"),
        ((0..60).fold(json!({}), |inner, _| json!({"x": inner})), "deeper"),
    ] {
        let answer = output.clone();
        let app = app().action("A", move |_, _| Ok(answer.clone())).start().await;
        let listing = run(&app, &graph(&[node("a", &[])])).await;
        assert_eq!(lines(&listing), ["a ERRORED 0"], "{output}");
        assert!(listing.states[0].error.as_deref().unwrap().contains(what), "{output}");
    }
    for nothing in [json!([]), json!(null)] {
        let app =
            app().action("A", move |_, _| Ok(nothing.clone())).action("B", |_, _| Ok(json!({})));
        let listing = run(&app.start().await, &graph(&[node("a", &["b"]), node("b", &[])])).await;
        assert_eq!(lines(&listing), ["a SUCCESS 0", "b SUCCESS 0"]);
    }
}

#[test]
async fn a_checked_activity_is_tried_again_when_it_returns_what_no_node_returns() {
    let odd_at_first = resurgam_sdk::ActivityDefinition::new("A", |ctx, _| {
        Box::pin(async move {
            let output = if ctx.attempt() < 3 { json!("text") } else { json!([{}, {}]) };
            Ok(resurgam::Payload::encode(&output)?)
        })
    });
    let app = app().activity_definition(resurgam_graph::node_activity(odd_at_first)).start().await;
    let mut template = graph(&[node("a", &[])]);
    template["retry_policy"] = json!({"max_retries": 5});
    let listing = run(&app, &template).await;
    let expected = ["a RETRY_CREATED 0", "a RETRY_CREATED 1", "a SUCCESS 2", "a SUCCESS 2"];
    assert_eq!(lines(&listing), expected);
    assert!(listing.states[0].error.as_deref().unwrap().ends_with("not a text"));
}

#[test]
async fn a_node_behind_two_others_runs_once_for_each() {
    let app = app();
    let app =
        ["R", "A", "B", "C"].iter().fold(app, |app, name| app.action(name, |_, _| Ok(json!({}))));
    let listing = run(
        &app.start().await,
        &graph(&[node("r", &["a", "b"]), node("a", &["c"]), node("b", &["c"]), node("c", &[])]),
    )
    .await;
    assert_eq!(count(&listing, "c"), 2);
}

#[test]
async fn the_root_waits_for_the_start_delay() {
    let app = app().action("A", |_, _| Ok(json!({}))).start().await;
    let begun = app.now().as_millis();
    let start = Start { delay: Duration::from_secs(3_600), ..Start::default() };
    let listing = run_with(&app, &graph(&[node("a", &[])]), &start).await;
    let row = &listing.states[0];
    assert_eq!((row.created_at_ms - begun, row.enqueue_after_ms - begun), (0, 3_600_000));
    assert!(app.now().as_millis() - begun >= 3_600_000);
}

#[test]
async fn a_run_under_way_can_be_listed_and_a_cancelled_one_stops() {
    let app = app().action("A", |_, _| Ok(json!({}))).action("B", fails("down")).start().await;
    let mut template = graph(&[node("a", &["b"]), node("b", &["c"]), node("c", &[])]);
    template["retry_policy"] =
        json!({"max_retries": 9, "strategy": "FIXED", "backoff_factor": 60_000});
    let started = crate::common::template(&template).start(&Start::default()).unwrap();
    let instance = app.start_named::<Value>("run", "graph", &started.run).await;
    app.advance(Duration::from_secs(90)).await;
    let listing = crate::common::listing_of(&app, "run").await;
    assert_eq!(listing.run_status, RunStatus::Pending);
    assert_eq!(
        lines(&listing),
        ["a SUCCESS 0", "b RETRY_CREATED 0", "b RETRY_CREATED 1", "b QUEUED 2"]
    );
    instance.cancel("enough").await.unwrap();
    assert!(matches!(instance.outcome().await, resurgam::Outcome::Cancelled(_)));
    assert_eq!(crate::common::listing_of(&app, "run").await.states[3].state, Status::Queued);
}

#[test]
async fn a_failure_with_many_states_tells_of_those_that_failed() {
    let mut failing = node("z", &[]);
    failing["node_name"] = json!("B");
    let nodes = [node("r", &["a", "z"]), node("a", &["b"]), node("b", &[]), failing];
    let app = app()
        .action("R", |_, _| Ok(json!({})))
        .action("A", |_, _| Ok(Value::from(vec![json!({}); 1_000])))
        .action("B", |args, _| match args["$node"]["identifier"].as_str() {
            Some("b") => Ok(json!({"text": "x".repeat(100)})),
            _ => Err(Failure::new("down")),
        })
        .start()
        .await;
    let started = crate::common::template(&graph(&nodes)).start(&Start::default()).unwrap();
    let instance = app.start_named::<Value>("run", "graph", &started.run).await;
    let failure = instance.failure().await;
    assert_eq!(failure.to_string(), "GraphFailed: 1 of 2002 states failed: node z (B): down");
    let details = failure.details.clone().unwrap();
    assert_eq!(details["states"][0]["identifier"], "z");
    assert_eq!(details["states_left_out"], 2_001);
    assert_eq!(crate::common::listing_of(&app, "run").await.states.len(), 2_002);
}

/// A graph of two branches, one of which is down, and its history after a day.
async fn given_up(on_exhausted: Value) -> (TestApp, String) {
    let app = app()
        .action("R", |_, _| Ok(json!([{}])))
        .action("DOWN", |_, attempt| {
            Err(Failure::of_type("BankDown", format!("attempt {attempt} failed")))
        })
        .action("UP", |_, _| Ok(json!([{"n": "up"}])))
        .action("LATER", |args, _| Ok(json!({"queued": args["cents"]})))
        .action("NEXT", |args, _| Ok(args))
        .start()
        .await;
    let mut template = graph(&[
        node("r", &["down", "up"]),
        node_with("down", json!({"cents": "700"}), &["next"]),
        node("up", &[]),
        node_with("next", json!({"queued": "${{ down.outputs.queued }}"}), &[]),
    ]);
    template["retry_policy"] =
        json!({"max_retries": 1, "strategy": "FIXED", "on_exhausted": on_exhausted});
    let started = crate::common::template(&template).start(&Start::default()).unwrap();
    drop(app.start_named::<Value>("run", "graph", &started.run).await);
    app.advance(Duration::from_secs(24 * 3_600)).await;
    let history = app.history("run").await;
    let told: Vec<&str> = history.lines().filter(|line| !line.contains(" RunStarted ")).collect();
    let told = told.join("\n") + "\n";
    (app, told)
}

#[test]
async fn a_node_fails_when_its_policy_says_so() {
    expect![[r#"
        2 +0ms ActivityScheduled R {"$node":{"identifier":"r"}}
        3 +0ms ActivityCompleted #2 [{}]
        4 +0ms ActivityScheduled DOWN {"$node":{"identifier":"down"},"cents":"700"}
          +0ms DOWN#4 attempt 1 failed: BankDown: attempt 1 failed; again in 2s
        5 +0ms ActivityScheduled UP {"$node":{"identifier":"up"}}
        6 +0ms ActivityCompleted #5 [{"n":"up"}]
          +2s DOWN#4 attempt 2 failed: BankDown: attempt 2 failed
        7 +2s ActivityFailed #4 (attempt 2) max_attempts: BankDown: attempt 2 failed
        8 +2s RunFailed GraphFailed: 1 of 3 states failed: node down (DOWN): attempt 2 failed
    "#]]
    .assert_eq(&given_up(json!("fail")).await.1);
}

#[test]
async fn a_node_waits_for_an_operator() {
    let (app, history) = given_up(json!("pause")).await;
    expect![[r#"
        2 +0ms ActivityScheduled R {"$node":{"identifier":"r"}}
        3 +0ms ActivityCompleted #2 [{}]
        4 +0ms ActivityScheduled DOWN {"$node":{"identifier":"down"},"cents":"700"}
          +0ms DOWN#4 attempt 1 failed: BankDown: attempt 1 failed; again in 2s
        5 +0ms ActivityScheduled UP {"$node":{"identifier":"up"}}
        6 +0ms ActivityCompleted #5 [{"n":"up"}]
          +2s DOWN#4 attempt 2 failed: BankDown: attempt 2 failed
    "#]]
    .assert_eq(&history);
    let value = json!([{"queued": "by hand"}]);
    app.act("run", "DOWN#4", |call| call.complete(&value)).await.unwrap();
    app.advance(Duration::from_secs(1)).await;
    let listing = crate::common::listing_of(&app, "run").await;
    assert_eq!(listing.run_status, RunStatus::Success);
}

#[test]
async fn a_node_waits_for_an_operator_for_some_time() {
    expect![[r#"
        2 +0ms ActivityScheduled R {"$node":{"identifier":"r"}}
        3 +0ms ActivityCompleted #2 [{}]
        4 +0ms ActivityScheduled DOWN {"$node":{"identifier":"down"},"cents":"700"}
          +0ms DOWN#4 attempt 1 failed: BankDown: attempt 1 failed; again in 2s
        5 +0ms ActivityScheduled UP {"$node":{"identifier":"up"}}
        6 +0ms ActivityCompleted #5 [{"n":"up"}]
          +2s DOWN#4 attempt 2 failed: BankDown: attempt 2 failed
        7 +2h ActivityFailed #4 (attempt 2) max_attempts: BankDown: attempt 2 failed
        8 +2h RunFailed GraphFailed: 1 of 3 states failed: node down (DOWN): attempt 2 failed
    "#]]
    .assert_eq(&given_up(json!({"pause": {"for": "2h"}})).await.1);
}

#[test]
async fn a_node_leaves_a_dead_letter() {
    let (app, history) = given_up(json!("dead_letter")).await;
    expect![[r#"
        2 +0ms ActivityScheduled R {"$node":{"identifier":"r"}}
        3 +0ms ActivityCompleted #2 [{}]
        4 +0ms ActivityScheduled DOWN {"$node":{"identifier":"down"},"cents":"700"}
          +0ms DOWN#4 attempt 1 failed: BankDown: attempt 1 failed; again in 2s
        5 +0ms ActivityScheduled UP {"$node":{"identifier":"up"}}
        6 +0ms ActivityCompleted #5 [{"n":"up"}]
          +2s DOWN#4 attempt 2 failed: BankDown: attempt 2 failed
        7 +2s ActivityFailed #4 (attempt 2) max_attempts: BankDown: attempt 2 failed
        8 +2s RunFailed GraphFailed: 1 of 3 states failed: node down (DOWN): attempt 2 failed
    "#]]
    .assert_eq(&history);
    assert_eq!(app.client().dead_letters(DeadLetterFilter::default()).await.unwrap().len(), 1);
}

#[test]
async fn a_dead_letter_of_a_node_is_redriven_in_its_run() {
    let is_up = Arc::new(AtomicBool::new(false));
    let asked = is_up.clone();
    let down = move |_: Value, _: u32| match asked.load(Ordering::Relaxed) {
        true => Ok(json!([{}])),
        false => Err(Failure::of_type("BankDown", "no answer")),
    };
    let app = app().action("R", |_, _| Ok(json!([{}]))).action("DOWN", down).start().await;
    let mut template = graph(&[node("r", &["down"]), node("down", &[])]);
    template["retry_policy"] =
        json!({"max_retries": 1, "strategy": "FIXED", "on_exhausted": "dead_letter"});
    let started = crate::common::template(&template).start(&Start::default()).unwrap();
    let instance = app.start_named::<Value>("run", "graph", &started.run).await;
    let failure = instance.failure().await;
    assert_eq!(
        failure.to_string(),
        "GraphFailed: 1 of 2 states failed: node down (DOWN): no answer"
    );
    assert_eq!(failure.cause.as_ref().unwrap().to_string(), "BankDown: no answer");
    is_up.store(true, Ordering::Relaxed);
    let call = app.client().dead_letters(DeadLetterFilter::default()).await.unwrap()[0].call;
    let redriven = app.ask("redrive", |client: &Client| client.redrive(call)).await.unwrap();
    assert!(redriven.changed(), "{redriven}");
    instance.result().await.unwrap();
    let listing = crate::common::listing_of(&app, "run").await;
    assert_eq!(listing.run_status, RunStatus::Success);
}

#[test]
async fn a_node_that_compensates_ends_the_run() {
    expect![[r#"
        2 +0ms ActivityScheduled R {"$node":{"identifier":"r"}}
        3 +0ms ActivityCompleted #2 [{}]
        4 +0ms ActivityScheduled DOWN {"$node":{"identifier":"down"},"cents":"700"}
          +0ms DOWN#4 attempt 1 failed: BankDown: attempt 1 failed; again in 2s
        5 +0ms ActivityScheduled UP {"$node":{"identifier":"up"}}
        6 +0ms ActivityCompleted #5 [{"n":"up"}]
          +2s DOWN#4 attempt 2 failed: BankDown: attempt 2 failed
        7 +2s ActivityFailed #4 (attempt 2) max_attempts ends the run: BankDown: attempt 2 failed
        8 +2s RunFailed BankDown: attempt 2 failed
    "#]]
    .assert_eq(&given_up(json!("compensate")).await.1);
}

#[test]
async fn a_node_falls_back_to_a_value() {
    let value = json!({"fallback": {"value": [{"queued": "none"}]}});
    expect![[r#"
        2 +0ms ActivityScheduled R {"$node":{"identifier":"r"}}
        3 +0ms ActivityCompleted #2 [{}]
        4 +0ms ActivityScheduled DOWN {"$node":{"identifier":"down"},"cents":"700"}
          +0ms DOWN#4 attempt 1 failed: BankDown: attempt 1 failed; again in 2s
        5 +0ms ActivityScheduled UP {"$node":{"identifier":"up"}}
        6 +0ms ActivityCompleted #5 [{"n":"up"}]
          +2s DOWN#4 attempt 2 failed: BankDown: attempt 2 failed
        7 +2s ActivityCompleted #4 (attempt 2) fallback [{"queued":"none"}]
        8 +2s ActivityScheduled NEXT {"$node":{"identifier":"next"},"queued":"none"}
        9 +2s ActivityCompleted #8 {"$node":{"identifier":"next"},"queued":"none"}
        10 +2s RunCompleted {"run_status":"SUCCESS","states":[{"created_at_ms":1767225600000,"error":null,"identifier":"r","inputs":{},"node":"R","o... (609 bytes)
    "#]].assert_eq(&given_up(value).await.1);
}

#[test]
async fn a_node_falls_back_to_another_activity_with_the_same_inputs() {
    let later = json!({"fallback": {"activity": "LATER"}});
    expect![[r#"
        2 +0ms ActivityScheduled R {"$node":{"identifier":"r"}}
        3 +0ms ActivityCompleted #2 [{}]
        4 +0ms ActivityScheduled DOWN {"$node":{"identifier":"down"},"cents":"700"}
          +0ms DOWN#4 attempt 1 failed: BankDown: attempt 1 failed; again in 2s
        5 +0ms ActivityScheduled UP {"$node":{"identifier":"up"}}
        6 +0ms ActivityCompleted #5 [{"n":"up"}]
          +2s DOWN#4 attempt 2 failed: BankDown: attempt 2 failed; falls back to LATER
        7 +2s ActivityCompleted #4 (attempt 3) fallback {"queued":"700"}
        8 +2s ActivityScheduled NEXT {"$node":{"identifier":"next"},"queued":"700"}
        9 +2s ActivityCompleted #8 {"$node":{"identifier":"next"},"queued":"700"}
        10 +2s RunCompleted {"run_status":"SUCCESS","states":[{"created_at_ms":1767225600000,"error":null,"identifier":"r","inputs":{},"node":"R","o... (606 bytes)
    "#]].assert_eq(&given_up(later).await.1);
}
