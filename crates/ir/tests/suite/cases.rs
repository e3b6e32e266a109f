//! Retries, timeouts, failures and parallel work of programs, in virtual time.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use expect_test::expect;
use resurgam::{ActivityContext, Client, DeadLetterFilter, Failure, Kind, Payload};
use resurgam_ir::Dialect;
use resurgam_sdk::ActivityDefinition;
use resurgam_testing::{TestApp, never};
use resurgam_watchdog::test;
use serde_json::{Value as Json, json};

use crate::support::{builder, main_of, run, start, start_in};

fn always(type_name: &'static str) -> impl Fn(Json, u32) -> Result<Json, Failure> {
    move |_, attempt| Err(Failure::of_type(type_name, format!("attempt {attempt} failed")))
}

/// When the attempts that did not succeed began, in seconds since the run did.
async fn attempts_at(app: &TestApp) -> Vec<u64> {
    let began = app.client().events("run").await.unwrap()[0].at;
    let ledger = app.ledger("run").await;
    ledger.iter().map(|row| row.started_at.since(began).as_secs()).collect()
}

#[test]
async fn delays_double_from_the_backoff_and_the_last_failure_is_the_end() {
    let app = builder().action("f", always("Down")).start().await;
    let failure = run(&app, &main_of("r = @f() [retry: 3, backoff: 60]")).await.unwrap_err();
    assert_eq!(attempts_at(&app).await, [0, 60, 180, 420]);
    assert_eq!(failure.to_string(), "Down: attempt 4 failed");
    assert_eq!((failure.attempts, failure.why.as_deref()), (Some(4), Some("max_attempts")));
    assert_eq!(app.attempts_of("f"), 4);
}

#[test]
async fn a_failure_that_no_bracket_names_propagates_at_once() {
    let app = builder().action("f", always("ValueError")).start().await;
    let program = main_of("r = @f() [NetworkError -> retry: 5, backoff: 2m]");
    let failure = run(&app, &program).await.unwrap_err();
    assert_eq!(failure.type_name.as_deref(), Some("ValueError"));
    assert_eq!(app.attempts_of("f"), 1);
}

#[test]
async fn several_types_share_a_bracket() {
    let app = builder().action("f", |_, attempt| match attempt {
        1 | 2 => Err(Failure::of_type("KeyError", "not yet")),
        _ => Ok(json!("ok")),
    });
    let app = app.start().await;
    let began = app.now();
    let program = main_of("return @f() [(ValueError, KeyError) -> retry: 3, backoff: 30s]");
    assert_eq!(run(&app, &program).await.unwrap(), json!("ok"));
    assert_eq!(app.now().since(began), Duration::from_secs(90));
    assert_eq!(app.attempts_of("f"), 3);
}

#[test]
async fn each_type_has_the_bracket_that_names_it() {
    let app = builder().action("f", always("NetworkError")).start().await;
    let program = main_of(
        "r = @f() [RateLimitError -> retry: 10, backoff: 1m] [NetworkError -> retry: 3, backoff: 30s]",
    );
    let failure = run(&app, &program).await.unwrap_err();
    assert_eq!(failure.type_name.as_deref(), Some("NetworkError"));
    assert_eq!(attempts_at(&app).await, [0, 30, 90, 210]);
}

fn slow() -> ActivityDefinition {
    ActivityDefinition::new("slow", |ctx: ActivityContext, _: Payload| {
        Box::pin(async move {
            never(&ctx).await;
            Ok(Payload::null())
        })
    })
}

#[test]
async fn a_bracket_for_everything_retries_timeouts_in_rappel_and_not_in_waymark() {
    let program = main_of("r = @slow() [retry: 1, backoff: 5] [timeout: 2m]");
    for (dialect, ends) in [(Dialect::Rappel, vec![120, 245]), (Dialect::Waymark, vec![120])] {
        let app = builder().activity_definition(slow()).start().await;
        let began = app.now();
        let instance = start_in(&app, &program, json!({}), Some(dialect)).await;
        let failure = instance.failure().await;
        let ledger = app.ledger("run").await;
        let ended: Vec<u64> =
            ledger.iter().map(|row| row.ended_at.since(began).as_secs()).collect();
        assert_eq!(ended, ends, "{dialect}");
        assert_eq!(failure.kind, Kind::Timeout, "{dialect}");
        assert!(failure.to_string().contains("timeout"), "{failure}");
    }
}

#[test]
async fn timeouts_can_have_a_limit_of_their_own_and_are_caught_by_name() {
    let app = builder().activity_definition(slow()).start().await;
    let program = main_of(
        "try:\n    @slow() [retry: 9] [timeout_retry: 1, backoff: 10s] [timeout: 90] [timeout: 1m]\nexcept ActionTimeout as e:\n    return e.type",
    );
    let began = app.now();
    assert_eq!(run(&app, &program).await.unwrap(), json!("ActionTimeout"));
    assert_eq!(app.now().since(began), Duration::from_secs(130));
}

#[test]
async fn without_a_bracket_there_is_one_attempt_whatever_the_default_policy_says() {
    let app = builder().action("f", always("Down")).start().await;
    run(&app, &main_of("@f()")).await.unwrap_err();
    assert_eq!(app.attempts_of("f"), 1);
}

#[test]
async fn a_bracket_can_grow_linearly_be_capped_and_bounded() {
    let cases = [
        ("[retry: 3, backoff: 10s linear]", vec![0, 10, 30, 60]),
        ("[retry: 3, backoff: 10s, multiplier: 3]", vec![0, 10, 40, 130]),
        ("[retry: 4, backoff: 10s, max_delay: 15s]", vec![0, 10, 25, 40, 55]),
        ("[retry: 9, backoff: 10s, max_elapsed: 1m]", vec![0, 10, 30]),
        ("[retry: 2, backoff: 10s, jitter: none]", vec![0, 10, 30]),
    ];
    for (bracket, expected) in cases {
        let app = builder().action("f", always("Down")).start().await;
        run(&app, &main_of(&format!("@f() {bracket}"))).await.unwrap_err();
        assert_eq!(attempts_at(&app).await, expected, "{bracket}");
    }
}

#[test]
async fn jitter_spreads_a_delay() {
    let app = builder().action("f", always("Down")).start().await;
    run(&app, &main_of("@f() [retry: 1, backoff: 100s, jitter: 20%]")).await.unwrap_err();
    let delay = app.ledger("run").await[0].delay_ms.unwrap();
    assert!((80_000..=120_000).contains(&delay) && delay != 100_000, "{delay}");
}

#[test]
async fn an_exhausted_action_is_caught_and_what_follows_runs_once() {
    let app = builder()
        .action("f", always("NetErr"))
        .action("after", |args, _| Ok(args["r"].clone()))
        .start()
        .await;
    let program = main_of(
        "r = None\ntry:\n    @f() [retry: 2, backoff: 1]\nexcept NetErr as e:\n    r = e.message\nreturn @after(r=r)",
    );
    assert_eq!(run(&app, &program).await.unwrap(), json!("attempt 3 failed"));
    assert_eq!((app.attempts_of("f"), app.attempts_of("after")), (3, 1));
}

/// An action that squares, the smaller the number the later.
fn square() -> ActivityDefinition {
    ActivityDefinition::new("sq", |ctx: ActivityContext, input: Payload| {
        Box::pin(async move {
            let args: Json = input.decode()?;
            let x = args["x"].as_u64().unwrap();
            ctx.sleep(Duration::from_secs(100 - x)).await;
            Ok(Payload::encode(&(x * x))?)
        })
    })
}

#[test]
async fn a_spread_gives_its_results_in_the_order_of_its_items() {
    let app = builder().activity_definition(square()).start().await;
    let program = "fn main(input: [items], output: [xs]):\n    xs = spread items:i -> @sq(x=i)\n    return xs\n";
    let began = app.now();
    let instance = start(&app, program, json!({"items": [3, 1, 2]})).await;
    assert_eq!(instance.result().await.unwrap(), json!([9, 1, 4]));
    assert_eq!(app.now().since(began), Duration::from_secs(99), "they ran together");
    let app = builder().activity_definition(square()).start().await;
    let instance = start(&app, program, json!({"items": []})).await;
    assert_eq!(instance.result().await.unwrap(), json!([]));
    assert_eq!(app.attempts_of("sq"), 0);
    assert!(!app.history("run").await.contains("ActivityScheduled"));
}

#[test]
async fn parallel_calls_start_together_and_answer_in_source_order() {
    let app = builder().activity_definition(square()).start().await;
    let program = "\
fn main(input: [], output: [r]):
    a, b, c = parallel:
        @sq(x=1)
        twice(n=5)
        @sleep(duration=200)
    d = parallel(@sq(x=2), twice(7))
    return [a, b, c, d]

fn twice(input: [n], output: [r]):
    first = @sq(x=n)
    return first + @sq(x=n)
";
    let began = app.now();
    assert_eq!(run(&app, program).await.unwrap(), json!([1, 50, null, [4, 98]]));
    assert_eq!(app.now().since(began), Duration::from_secs(200 + 186));
}

#[test]
async fn a_parallel_failure_is_raised_after_all_have_settled_with_the_others_in_its_details() {
    let done = Arc::new(AtomicU32::new(0));
    let counted = done.clone();
    let late = ActivityDefinition::new("late", move |ctx: ActivityContext, _: Payload| {
        let done = counted.clone();
        Box::pin(async move {
            ctx.sleep(Duration::from_secs(50)).await;
            done.fetch_add(1, Ordering::Relaxed);
            Ok(Payload::null())
        })
    });
    let app = builder()
        .activity_definition(late)
        .action("bad", |args, _| Err(Failure::of_type("Bad", args["n"].to_string())))
        .start()
        .await;
    let program = main_of(
        "try:\n    parallel:\n        @late()\n        @bad(n=1) [retry: 1, backoff: 9]\n        @bad(n=2)\nexcept Bad as e:\n    return [e.message, e.values]",
    );
    let began = app.now();
    let caught = run(&app, &program).await.unwrap();
    let others = json!([{"index": 2, "type": "Bad", "message": "2"}]);
    assert_eq!(caught, json!(["1", {"failed": 2, "others": others}]));
    assert_eq!(app.now().since(began), Duration::from_secs(50));
    assert_eq!(done.load(Ordering::Relaxed), 1);
}

#[test]
async fn a_letter_of_calls_that_fail_beside_each_other_is_redriven_in_its_run() {
    let is_up = Arc::new(AtomicBool::new(false));
    let asked = is_up.clone();
    let sq = move |args: Json, _: u32| match asked.load(Ordering::Relaxed) {
        true => Ok(args["x"].clone()),
        false => Err(Failure::of_type("Down", format!("no answer for {}", args["x"]))),
    };
    let app = builder().action("sq", sq).start().await;
    let program = main_of(
        "xs = spread [1, 2]:i -> @sq(x=i) [retry: 1, on_exhausted: dead_letter]\nreturn xs",
    );
    let instance = start(&app, &program, json!({})).await;
    assert_eq!(instance.failure().await.message, "no answer for 1");
    is_up.store(true, Ordering::Relaxed);
    let letters = app.client().dead_letters(DeadLetterFilter::default()).await.unwrap();
    let first = letters.iter().map(|letter| letter.call).min_by_key(|call| call.seq).unwrap();
    let redriven = app.ask("redrive", |client: &Client| client.redrive(first)).await.unwrap();
    assert!(redriven.changed(), "{redriven}");
    assert_eq!(instance.result().await.unwrap(), json!([1, 2]));
}

#[test]
async fn a_handler_matches_the_reported_hierarchy_and_the_first_one_wins() {
    let refused = |_: Json, _: u32| {
        let mut failure = Failure::of_type("ConnectionRefusedError", "refused");
        failure.mro = vec!["ConnectionRefusedError".into(), "ConnectionError".into()];
        Err(failure)
    };
    let app = builder()
        .action("reported", refused)
        .action("plain", |_, _| Err(Failure::of_type("ConnectionRefusedError", "refused")))
        .action("nameless", |_, _| Err(Failure::new("just so")))
        .start()
        .await;
    let program = "\
fn main(input: [], output: [r]):
    return [reported(), plain(), nameless()]

fn reported(input: [], output: [r]):
    try:
        @reported()
    except ValueError:
        return 1
    except ConnectionError:
        return 2
    except ConnectionRefusedError:
        return 3

fn plain(input: [], output: [r]):
    try:
        try:
            @plain()
        except ValueError, KeyError:
            return 1
    except OSError as e:
        return [e.type, e.message, e.module, e.traceback, e.values, isexception(e)]

fn nameless(input: [], output: [r]):
    try:
        @nameless()
    except Exception as e:
        return e
";
    let expected = json!([
        2,
        ["ConnectionRefusedError", "refused", null, null, null, true],
        {"type": "Exception", "message": "just so", "module": null, "traceback": null, "values": null},
    ]);
    assert_eq!(run(&app, program).await.unwrap(), expected);
}

#[test]
async fn a_bracket_for_a_type_of_pythons_covers_those_below_it() {
    let app = builder().action("f", always("ConnectionResetError")).start().await;
    run(&app, &main_of("@f() [OSError -> retry: 2]")).await.unwrap_err();
    assert_eq!(app.attempts_of("f"), 3);
    let app = builder().action("f", always("Custom")).start().await;
    run(&app, &main_of("@f() [Exception -> retry: 1]")).await.unwrap_err();
    assert_eq!(app.attempts_of("f"), 2);
}

#[test]
async fn an_answer_that_looks_like_a_failure_is_a_value() {
    let answer = json!({"type": "ValueError", "message": "all is well"});
    let told = answer.clone();
    let app = builder().action("f", move |_, _| Ok(told.clone())).start().await;
    let program = main_of("r = @f()\nreturn [r, isexception(r), r.type]");
    assert_eq!(run(&app, &program).await.unwrap(), json!([answer, false, "ValueError"]));
}

#[test]
async fn sleeping_is_durable_in_both_dialects() {
    let app = builder().start().await;
    let program = main_of("@sleep(duration=60)\nsleep 1.5\nsleep(2)\nsleep\nreturn 1");
    let began = app.now();
    assert_eq!(run(&app, &program).await.unwrap(), json!(1));
    assert_eq!(app.now().since(began), Duration::from_millis(63_500));
}

#[test]
async fn arguments_are_worked_out_before_anything_starts_and_dotted_names_are_names() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let app = builder()
        .action("pay.charge", move |args, _| {
            log.lock().unwrap().push(args.to_string());
            Ok(args["cents"].clone())
        })
        .start()
        .await;
    let program = main_of("return @pay.charge(cents=@pay.charge(cents=5) + 1, timeout=3)");
    assert_eq!(run(&app, &program).await.unwrap(), json!(6));
    assert_eq!(*seen.lock().unwrap(), [r#"{"cents":5}"#, r#"{"cents":6,"timeout":3}"#]);
}

#[test]
async fn ten_thousand_items_are_spread() {
    let app = builder().action("inc", |args, _| Ok(json!(args["x"].as_i64().unwrap() + 1)));
    let app = app.start().await;
    let program =
        main_of("xs = spread range(10000):i -> @inc(x=i)\nreturn [len(xs), xs[0], xs[-1]]");
    assert_eq!(run(&app, &program).await.unwrap(), json!([10_000, 1, 10_000]));
}

#[test]
async fn a_cancelled_run_cannot_be_caught() {
    let app = builder().start().await;
    let program = main_of("try:\n    sleep 1000\nexcept:\n    return 1\nreturn 2");
    let instance = start(&app, &program, json!({})).await;
    app.advance(Duration::from_secs(5)).await;
    instance.cancel("enough").await.unwrap();
    assert!(matches!(instance.outcome().await, resurgam::Outcome::Cancelled(_)));
}

/// An action that is always down, and what a program that calls it with these brackets
/// comes to within a day.
async fn given_up(bracket: &str) -> (TestApp, String) {
    let app = builder()
        .action("charge", always("BankDown"))
        .action("later", |args, _| Ok(json!({"queued": args["cents"]})))
        .start()
        .await;
    let program = main_of(&format!(
        "seat = 12\ntry:\n    r = @charge(cents=700) {bracket}\nexcept BankDown as e:\n    r = \
         \"caught \" + e.message\nreturn r"
    ));
    drop(start(&app, &program, json!({})).await);
    app.advance(Duration::from_secs(24 * 3_600)).await;
    let history = app.history("run").await;
    let end: Vec<&str> = history.lines().skip(1).collect();
    let end = end.join("\n") + "\n";
    (app, end)
}

#[test]
async fn a_bracket_that_says_fail_lets_the_program_have_the_failure() {
    expect![[r#"
        2 +0ms ActivityScheduled charge {"cents":700}
          +0ms charge#2 attempt 1 failed: BankDown: attempt 1 failed; again in 1s
          +1s charge#2 attempt 2 failed: BankDown: attempt 2 failed
        3 +1s ActivityFailed #2 (attempt 2) max_attempts: BankDown: attempt 2 failed
        4 +1s RunCompleted "caught attempt 2 failed"
    "#]]
    .assert_eq(&given_up("[retry: 1, backoff: 1s, on_exhausted: fail]").await.1);
}

#[test]
async fn a_paused_call_waits_for_an_operator_and_goes_on() {
    let (app, history) = given_up("[retry: 1, backoff: 1s, on_exhausted: pause]").await;
    expect![[r#"
        2 +0ms ActivityScheduled charge {"cents":700}
          +0ms charge#2 attempt 1 failed: BankDown: attempt 1 failed; again in 1s
          +1s charge#2 attempt 2 failed: BankDown: attempt 2 failed
    "#]]
    .assert_eq(&history);
    app.act("run", "charge#2", |call| call.complete(&"by hand")).await.unwrap();
    app.advance(Duration::from_secs(1)).await;
    let history = app.history("run").await;
    assert!(history.ends_with("RunCompleted \"by hand\"\n"), "{history}");
}

#[test]
async fn a_pause_with_a_time_ends_with_the_failure_that_the_call_had() {
    let (_, history) = given_up("[retry: 1, backoff: 1s, on_exhausted: pause 2h]").await;
    expect![[r#"
        2 +0ms ActivityScheduled charge {"cents":700}
          +0ms charge#2 attempt 1 failed: BankDown: attempt 1 failed; again in 1s
          +1s charge#2 attempt 2 failed: BankDown: attempt 2 failed
        3 +2h ActivityFailed #2 (attempt 2) max_attempts: BankDown: attempt 2 failed
        4 +2h RunCompleted "caught attempt 2 failed"
    "#]]
    .assert_eq(&history);
}

#[test]
async fn a_bracket_keeps_a_dead_letter() {
    let (app, history) = given_up("[retry: 1, backoff: 1s, on_exhausted: dead_letter]").await;
    expect![[r#"
        2 +0ms ActivityScheduled charge {"cents":700}
          +0ms charge#2 attempt 1 failed: BankDown: attempt 1 failed; again in 1s
          +1s charge#2 attempt 2 failed: BankDown: attempt 2 failed
        3 +1s ActivityFailed #2 (attempt 2) max_attempts: BankDown: attempt 2 failed
        4 +1s RunCompleted "caught attempt 2 failed"
    "#]]
    .assert_eq(&history);
    let letters = app.client().dead_letters(DeadLetterFilter::default()).await.unwrap();
    assert_eq!(letters.len(), 1);
}

#[test]
async fn a_bracket_that_compensates_ends_the_run_whatever_the_program_would_do() {
    let (_, history) = given_up("[retry: 1, backoff: 1s, on_exhausted: compensate]").await;
    expect![[r#"
        2 +0ms ActivityScheduled charge {"cents":700}
          +0ms charge#2 attempt 1 failed: BankDown: attempt 1 failed; again in 1s
          +1s charge#2 attempt 2 failed: BankDown: attempt 2 failed
        3 +1s ActivityFailed #2 (attempt 2) max_attempts ends the run: BankDown: attempt 2 failed
        4 +1s RunFailed BankDown: attempt 2 failed
    "#]]
    .assert_eq(&history);
}

#[test]
async fn a_fallback_is_calculated_when_the_call_is_made() {
    let (_, history) =
        given_up("[retry: 1, backoff: 1s] [fallback: {\"seats\": [seat, seat + 1]}]").await;
    expect![[r#"
        2 +0ms ActivityScheduled charge {"cents":700}
          +0ms charge#2 attempt 1 failed: BankDown: attempt 1 failed; again in 1s
          +1s charge#2 attempt 2 failed: BankDown: attempt 2 failed
        3 +1s ActivityCompleted #2 (attempt 2) fallback {"seats":[12,13]}
        4 +1s RunCompleted {"seats":[12,13]}
    "#]]
    .assert_eq(&history);
    // Without a retry bracket there is one attempt, and what is wrong with the expression is a
    // failure of the program.
    let (_, history) = given_up("[fallback: None]").await;
    expect![[r#"
        2 +0ms ActivityScheduled charge {"cents":700}
          +0ms charge#2 attempt 1 failed: BankDown: attempt 1 failed
        3 +0ms ActivityCompleted #2 fallback null
        4 +0ms RunCompleted null
    "#]]
    .assert_eq(&history);
    let (app, _) = given_up("[fallback: seat / 0]").await;
    let history = app.history("run").await;
    assert!(history.ends_with("RunFailed ZeroDivisionError: division by zero\n"), "{history}");
    assert_eq!(app.attempts_of("charge"), 0);
}

#[test]
async fn each_item_of_a_spread_has_its_own_fallback() {
    let app = builder().action("sq", always("Down")).start().await;
    let program = main_of("xs = spread [3, 1, 2]:i -> @sq(x=i) [fallback: i * i]\nreturn xs");
    assert_eq!(run(&app, &program).await.unwrap(), json!([9, 1, 4]));
}

#[test]
async fn another_action_goes_on_with_the_arguments_of_the_call() {
    let (_, history) = given_up("[retry: 1, backoff: 1s] [fallback: @later]").await;
    expect![[r#"
        2 +0ms ActivityScheduled charge {"cents":700}
          +0ms charge#2 attempt 1 failed: BankDown: attempt 1 failed; again in 1s
          +1s charge#2 attempt 2 failed: BankDown: attempt 2 failed; falls back to later
        3 +1s ActivityCompleted #2 (attempt 3) fallback {"queued":700}
        4 +1s RunCompleted {"queued":700}
    "#]]
    .assert_eq(&history);
}
