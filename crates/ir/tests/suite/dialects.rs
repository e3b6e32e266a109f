//! The union of both dialects is read; the dialect decides only where they contradict each other.

use resurgam_ir::{Dialect, Program};
use resurgam_watchdog::test;
use serde_json::json;

use crate::support::{builder, main_of, returned, start_in};

fn reads(lines: &str) {
    for dialect in [None, Some(Dialect::Rappel), Some(Dialect::Waymark)] {
        if let Err(errors) = Program::read("a.rap", &main_of(lines), dialect) {
            panic!("{dialect:?}\n{errors}");
        }
    }
}

async fn returned_in(lines: &str, dialect: Dialect) -> String {
    let app = builder().start().await;
    let instance = start_in(&app, &main_of(lines), json!({}), Some(dialect)).await;
    instance.result().await.unwrap().to_string()
}

#[test]
fn a_dialect_is_guessed_from_what_only_one_of_them_has() {
    for (lines, expected) in [
        ("x = @f()", Dialect::Rappel),
        ("x = @pay.charge()", Dialect::Waymark),
        ("pass", Dialect::Waymark),
        ("sleep 5", Dialect::Waymark),
        ("sleep", Dialect::Waymark),
        ("x = 'single'", Dialect::Waymark),
        (r#"x = "an \"escaped\" quote""#, Dialect::Waymark),
        (r#"x = "C:\""#, Dialect::Rappel),
        (r#"x = "a\nb""#, Dialect::Rappel),
        ("# it's a comment with 'quotes' and pass", Dialect::Rappel),
        ("x = \"it's a text\"", Dialect::Rappel),
        ("sleep = 5", Dialect::Rappel),
        ("x = @sleep(duration=5)", Dialect::Rappel),
    ] {
        assert_eq!(Dialect::guess(&main_of(lines)), expected, "{lines}");
    }
}

#[test]
fn what_one_of_them_refuses_is_read_in_both() {
    reads("# a comment\nx = 1  # another");
    reads("@f() [(A, B) -> retry: 3] [C, D -> retry: 2]");
    reads(
        "input = 1\noutput = 2\nretry = 3\nbackoff = 4\ntimeout = 5\nspread = 6\nparallel = 7\nsleep = 8\nas = 9\n\
           @f(timeout=timeout, input=input, spread=spread, for=1)\nx = [sleep, parallel, output, retry, backoff, as]",
    );
    reads("x = [1., 1e3, 1.5, 2E-3]");
    reads("x = 'a'\ny = \"b\"");
    reads("x = @f(\n    a=1,\n    b=[\n        2,\n    ],\n)");
    reads("returned = 1\nbreaks = 2\niffy = returned + breaks\nif_ = 3\nreturn iffy");
    reads("x = @f()\n    [retry: 3]\n    [timeout: 5]\ny = @g()\n[A -> retry: 3]");
    reads("x = parallel(@f(), @g(a=1))\na, b = parallel:\n    @f()\n    @g()");
    reads("_ = @f()\npass\nsleep\nsleep 3\nreturn");
    reads("try:\n    @f()\nexcept A, B as e:\n    pass\nexcept (C, D):\n    pass");
}

#[test]
fn blocks_may_have_any_width_and_tabs_count_four() {
    let text = "fn main(input: [a], output: []):\n  if a:\n     return 1\n  return 2\n";
    Program::read("a.rap", text, None).unwrap();
    let text = "fn main(input: [a], output: []):\n\tif a:\n\t\treturn 1\n    return 2\n";
    Program::read("a.rap", text, None).unwrap();
    let text = "fn main(input: [], output: []):\r\n    return 1\r\n";
    assert_eq!(Program::read("a.rap", text, None).unwrap().text(), text.replace('\r', ""));
}

#[test]
async fn return_ends_with_its_line() {
    assert_eq!(returned("if True:\n    return\n    5\nreturn 6").await, "null");
}

#[test]
async fn a_backslash_in_double_quotes_is_one_in_rappel_and_an_escape_in_waymark() {
    let lines = r#"return ["a\nb", 'c\td\u00e9\ud83d\ude00']"#;
    assert_eq!(returned_in(lines, Dialect::Rappel).await, r#"["a\\nb","c\tdé😀"]"#);
    assert_eq!(returned_in(lines, Dialect::Waymark).await, r#"["a\nb","c\tdé😀"]"#);
    let lines = r#"return "say \"hi\"""#;
    assert_eq!(returned_in(lines, Dialect::Waymark).await, r#""say \"hi\"""#);
}

#[test]
async fn not_before_in_is_waymarks_only_when_somebody_says_so() {
    let lines = "return not 1 in [False]";
    assert_eq!(returned_in(lines, Dialect::Rappel).await, "true");
    assert_eq!(returned_in(lines, Dialect::Waymark).await, "true");
    let lines = "return not 1 in [2]";
    assert_eq!(returned_in(lines, Dialect::Rappel).await, "true");
    assert_eq!(returned_in(lines, Dialect::Waymark).await, "false");
    // A guess does not change what an expression means.
    assert_eq!(returned("pass\nreturn not 1 in [2]").await, "true");
}

#[test]
async fn a_function_may_have_the_name_of_a_statement() {
    let app = builder().start().await;
    let text = "fn main(input: [], output: []):\n    x = parallel(1)\n    y = sleep(2)\n    sleep(3)\n    return [x, y]\n\n\
                fn parallel(input: [n], output: []):\n    return n\n\nfn sleep(input: [n], output: []):\n    return n\n";
    let began = app.now();
    let result = start_in(&app, text, json!({}), None).await.result().await;
    assert_eq!(result.unwrap(), json!([1, 2]));
    assert_eq!(app.now(), began);
}

#[test]
fn the_entry_is_main_or_the_first_function() {
    let other = "fn first(input: [a], output: [b]):\n    return 1\n";
    let main = "fn main(input: [c], output: [d]):\n    return first(c)\n";
    let program = Program::read("a.rap", &format!("{other}\n{main}"), None).unwrap();
    assert_eq!(
        (program.entry(), program.inputs(), program.outputs()),
        (Some("main"), vec!["c"], vec!["d"])
    );
    let program = Program::read("a.rap", other, None).unwrap();
    assert_eq!((program.entry(), program.inputs()), (Some("first"), vec!["a"]));
}

#[test]
fn inputs_are_checked_by_name() {
    let program =
        Program::read("a.rap", "fn main(input: [order, items], output: []):\n    return 1\n", None)
            .unwrap();
    let check = |inputs| program.check_inputs(&resurgam_ir::Value::from_json(&inputs).unwrap());
    assert_eq!(check(json!({"order": 1, "items": []})), Ok(()));
    assert_eq!(
        check(json!({"oder": 1, "items": []})).unwrap_err(),
        [
            "missing input \"order\"; main takes order, items",
            "unknown input \"oder\"; did you mean \"order\"?"
        ]
    );
    assert_eq!(
        check(json!([])).unwrap_err(),
        ["the inputs are not an object; main takes order, items"]
    );
}

#[test]
fn the_actions_of_a_program_are_listed_with_their_places() {
    let text = "fn main(input: [], output: []):\n    x = [@b.c(), {\"k\": @a(x=@d())}]\n    @sleep(duration=1)\n    y = spread x:i -> @e(i=i)\n    parallel:\n        @f()\n    return @a()\n";
    let program = Program::read("a.rap", text, None).unwrap();
    let found: Vec<String> =
        program.actions().iter().map(|a| format!("{} {}:{}", a.name, a.line, a.column)).collect();
    assert_eq!(found, ["a 2:25", "b.c 2:11", "d 2:30", "e 4:24", "f 6:10"]);
}
