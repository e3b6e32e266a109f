//! Loops, handlers, functions and limits of programs.

use std::time::Duration;

use resurgam::{Failure, Payload};
use resurgam_ir::Program;
use resurgam_sdk::ActivityDefinition;
use resurgam_watchdog::test;
use serde_json::json;

use crate::support::{builder, main_of, returned, run, start};

#[test]
async fn loops_break_and_continue_at_the_innermost() {
    let lines = "\
out = []
for i in range(10):
    if i == 2:
        continue
    for j in range(10):
        if j > i:
            break
        out = out + [i * 10 + j]
    if i == 3:
        break
n = 0
while True:
    n = n + 1
    try:
        if n < 5:
            continue
        break
    except:
        return \"never\"
return [out, n]";
    assert_eq!(returned(lines).await, "[[0,10,11,30,31,32,33],5]");
}

#[test]
async fn a_loop_goes_through_lists_texts_keys_and_pairs() {
    let lines = "\
out = []
for c in \"hé\":
    out = out + [c]
for k in {\"b\": 1, \"a\": 2}:
    out = out + [k]
for i, x in enumerate([7, 8]):
    out = out + [i + x]
for a, b in [[1, 2], \"xy\"]:
    out = out + [a]
return out";
    assert_eq!(returned(lines).await, r#"["h","é","b","a",7,9,1,"x"]"#);
    assert_eq!(returned("for x in 5:\n    pass").await, "TypeError: 'int' object is not iterable");
    let few = "ValueError: not enough values to unpack (expected 2, got 1)";
    assert_eq!(returned("a, b = [1]").await, few);
    assert_eq!(
        returned("a, b = [1, 2, 3]").await,
        "ValueError: too many values to unpack (expected 2)"
    );
    assert_eq!(returned("a, b = 3").await, "TypeError: cannot unpack non-iterable int object");
}

#[test]
async fn a_handler_leaves_loops_and_calls_behind() {
    let app = builder().action("f", |_, _| Err(Failure::of_type("Bad", "no"))).start().await;
    let text = "\
fn main(input: [], output: []):
    out = []
    for i in range(3):
        try:
            for j in range(3):
                out = out + [inner(i, j)]
        except Bad as e:
            out = out + [e.message]
    try:
        try:
            1 / 0
        except KeyError:
            out = out + [\"wrong\"]
    except ArithmeticError as e:
        out = out + [e.type, e.traceback]
    try:
        try:
            1 / 0
        except ZeroDivisionError:
            [][1]
    except LookupError as e:
        out = out + [e.type]
    return out

fn inner(input: [i, j], output: []):
    for x in [1, 2]:
        if i == 1 and j == 1:
            @f()
    return i * j
";
    let expected =
        json!([0, 0, 0, 0, "no", 0, 2, 4, "ZeroDivisionError", "line 11, in main", "IndexError"]);
    assert_eq!(run(&app, text).await.unwrap(), expected);
}

#[test]
async fn a_variable_that_this_way_does_not_assign_is_a_failure_that_can_be_caught() {
    let lines = "try:\n    if False:\n        x = 1\n    return x\nexcept NameError as e:\n    return e.message";
    let expected = "\"variable 'x' referenced before assignment in function 'main'\"";
    assert_eq!(returned(lines).await, expected);
}

#[test]
async fn values_are_not_shared_by_name() {
    let lines = "xs = [1]\nys = xs\nxs = xs + [2]\nxs = xs + xs\ns = \"a\"\nt = s\ns = s + \"b\"\nreturn [xs, ys, s, t]";
    assert_eq!(returned(lines).await, r#"[[1,2,1,2],[1],"ab","a"]"#);
    let lines = "x = [1]\ntry:\n    x = x + 5\nexcept TypeError:\n    return x";
    assert_eq!(returned(lines).await, "[1]");
}

#[test]
async fn collecting_in_a_loop_does_not_copy_everything_each_time() {
    let began = thread_time();
    let lines = "xs = []\ns = \"\"\nfor i in range(200000):\n    xs = xs + [i]\n    s = s + \"x\"\nreturn [len(xs), len(s)]";
    assert_eq!(returned(lines).await, "[200000,200000]");
    // Copying would be 20 billion items.
    let took = thread_time() - began;
    assert!(took.as_secs() < 20, "{took:?}");
}

#[test]
async fn a_program_that_never_waits_is_ended_and_cannot_stop_that() {
    let failed = returned("while True:\n    try:\n        pass\n    except:\n        pass").await;
    assert!(failed.starts_with("StepLimit: the program made 10000000 steps"), "{failed}");
}

#[test]
async fn values_that_grow_without_end_are_refused() {
    let deep = "x = []\nfor i in range(200):\n    x = [x]\nreturn x";
    assert_eq!(returned(deep).await, "RecursionError: a value is nested more than 100 levels deep");
    let wide = "x = [1]\nfor i in range(99):\n    x = [x, x]\nreturn x";
    assert_eq!(returned(wide).await, "MemoryError: a value is larger than 64 MiB");
    let long = "return len(range(9223372036854775807))";
    assert!(returned(long).await.starts_with("MemoryError: a list of 9223372036854775807 numbers"));
    let through = "n = 0\nfor i in range(9223372036854775807):\n    n = i\n    if i == 3:\n        break\nreturn n";
    assert_eq!(returned(through).await, "3");
}

/// An action that answers with this text.
fn answer(text: &'static str) -> ActivityDefinition {
    ActivityDefinition::new("f", move |_, _| Box::pin(async move { Ok(Payload::from_text(text)) }))
}

#[test]
async fn a_result_of_an_action_keeps_its_order_and_its_integers() {
    let told =
        r#"{"b":-9223372036854775808,"a":[9223372036854775807,1e+300,"36893488147419103232"]}"#;
    let app = builder().activity_definition(answer(told)).start().await;
    let instance = start(&app, &main_of("return @f()"), json!({})).await;
    match instance.outcome().await {
        resurgam::Outcome::Completed(result) => assert_eq!(result.as_str(), told),
        other => panic!("{other:?}"),
    }
    for wide in ["18446744073709551615", "[1, -36893488147419103232]"] {
        let app = builder().activity_definition(answer(wide)).start().await;
        let failure = run(&app, &main_of("return @f()")).await.unwrap_err();
        assert_eq!(failure.type_name.as_deref(), Some("OverflowError"), "{wide}");
    }
}

#[test]
async fn as_deep_as_it_may_be_nested_a_program_runs() {
    let mut lines: Vec<String> =
        (0..98).map(|depth| format!("{}if True:", "    ".repeat(depth))).collect();
    let inner = "    ".repeat(98);
    let lists = |open: &str, close: &str| format!("{}1{}", open.repeat(98), close.repeat(98));
    lines.push(format!("{inner}x = {}", lists("[", "]")));
    lines.push(format!("{inner}y = {}", lists("(0 + ", ")")));
    lines.push(format!("{inner}return [y, x == x, {}]", "not ".repeat(90) + "y"));
    let text = main_of(&lines.join("\n"));
    let printed = resurgam_ir::format("deep.rap", &text, None).unwrap();
    assert_eq!(
        Program::read("deep.rap", &printed, None).unwrap(),
        Program::read("deep.rap", &text, None).unwrap()
    );
    assert_eq!(returned(&lines.join("\n")).await, "[1,true,true]");
}

#[test]
async fn deep_calls_that_run_beside_others_do_not_overflow_the_stack() {
    let app = builder().start().await;
    let mut functions: Vec<String> = (0..49)
        .map(|n| format!("fn f{n}(input: [], output: []):\n    x = parallel(f{}(), f{}())\n    return 1 + x[0]\n", n + 1, 49))
        .collect();
    functions.push("fn f49(input: [], output: []):\n    sleep 1\n    return 1\n".to_string());
    assert_eq!(
        start(&app, &functions.join("\n"), json!({})).await.result().await.unwrap(),
        json!(50)
    );
}

#[test]
fn ten_thousand_lines_are_read_and_checked_at_once() {
    let mut text = String::new();
    for n in 0..1_000 {
        text += &format!(
            "fn f{n}(input: [a, b], output: [c]):\n    # step {n}\n    x = @act{n}(a=a, b=b) [retry: 3, backoff: 30s]\n"
        );
        text += "    if x == 1 and a < b <= 3:\n        y = [x, a, {\"k\": b}]\n    else:\n        y = x + a * b\n    for i in y:\n        z = i\n    return y\n";
    }
    assert!(text.lines().count() >= 10_000);
    is_quick(&text, 0);
}

#[test]
fn one_long_function_is_checked_as_quickly_as_many_short_ones() {
    for (kind, lines) in [
        ("conditions", "    x{n} = x{m} or {n}\n"),
        ("branches", "    if x{m}:\n        x{n} = 1\n"),
        ("loops", "    for y in [1]:\n        x{n} = x{m}\n"),
        ("handlers", "    try:\n        x{n} = @f(a=x{m})\n    except E:\n        x{n} = 1\n"),
    ] {
        let mut text = "fn main(input: [x0], output: []):\n".to_string();
        for n in 1..10_000 / lines.lines().count() {
            let (n, m) = (n.to_string(), (n - 1).to_string());
            text += &lines.replace("{n}", &n).replace("{m}", &m);
        }
        println!("{kind}");
        is_quick(&text, 0);
    }
}

#[test]
fn a_mistake_in_each_of_ten_thousand_lines_is_told_at_once() {
    let lines: String = (0..10_000).map(|n| format!("    x{n} = nope{n} + f{n}(a=1)\n")).collect();
    // The first thousand are told, and how many more there are.
    is_quick(&format!("fn main(input: [], output: []):\n{lines}"), 1_000);
}

/// Reads a text with this many errors.
fn is_quick(text: &str, errors: usize) {
    let began = thread_time();
    let read = Program::read("big.rap", text, None);
    assert_eq!(read.err().map_or(0, |errors| errors.iter().count()), errors);
    let took = thread_time() - began;
    assert!(took.as_secs() < 5, "{took:?}");
}

/// The processor time of this thread: other work on the machine does not lengthen it.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}
