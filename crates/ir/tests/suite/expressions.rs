//! Expressions mean what they mean in Python.

use resurgam_watchdog::test;
use serde_json::{Value as Json, json};

use crate::support::{builder, main_of, returned, start, value};

async fn check(cases: &[(&str, &str)]) {
    for (expression, expected) in cases {
        assert_eq!(value(expression).await, *expected, "{expression}");
    }
}

#[test]
async fn numbers_are_exact_and_floored_as_in_python() {
    check(&[
        ("-7 % 3", "2"),
        ("7 % -3", "-2"),
        ("-7 // 2", "-4"),
        ("7 // -2", "-4"),
        ("6 // -2", "-3"),
        ("7 / 2", "3.5"),
        ("6 / 2", "3.0"),
        ("-7.5 // 2", "-4.0"),
        ("-7.5 % 2", "0.5"),
        ("1 + 2 * 3 - 4", "3"),
        ("(1 + 2) * 3", "9"),
        ("2 - 3 - 4", "-5"),
        ("100 // 7 % 5", "4"),
        ("--3", "3"),
        ("True + True", "2"),
        ("1.5 + 1", "2.5"),
        ("9007199254740993 + 0", "9007199254740993"),
        ("9007199254740993 // 1", "9007199254740993"),
        ("9007199254740993 % 10", "3"),
        ("9007199254740992 < 9007199254740993", "true"),
        ("9007199254740993 == 9007199254740992.0", "false"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("1e3", "1000.0"),
        ("1.", "1.0"),
        (".5 + .5", "1.0"),
    ])
    .await;
}

#[test]
async fn what_python_raises_is_raised_and_can_be_caught() {
    for (expression, type_name, message) in [
        ("1 / 0", "ZeroDivisionError", "division by zero"),
        ("1 // 0", "ZeroDivisionError", "integer division or modulo by zero"),
        ("1.5 % 0", "ZeroDivisionError", "float modulo by zero"),
        ("9223372036854775807 + 1", "OverflowError", "the result does not fit into 64 bits"),
        ("-9223372036854775808 // -1", "OverflowError", "the result does not fit into 64 bits"),
        ("--9223372036854775808", "OverflowError", "the result does not fit into 64 bits"),
        ("9223372036854775807 * 2", "OverflowError", "the result does not fit into 64 bits"),
        ("[1][1]", "IndexError", "list index out of range"),
        ("[1][-2]", "IndexError", "list index out of range"),
        ("\"\"[0]", "IndexError", "string index out of range"),
        ("{\"a\": 1}[\"b\"]", "KeyError", "'b'"),
        ("{\"a\": 1}.b", "KeyError", "'b'"),
        ("1 + \"a\"", "TypeError", "unsupported operand type(s) for +: 'int' and 'str'"),
        ("\"a\" + 1", "TypeError", "can only concatenate str (not \"int\") to str"),
        ("[1] + 1", "TypeError", "can only concatenate list (not \"int\") to list"),
        ("1 < \"a\"", "TypeError", "'<' not supported between instances of 'int' and 'str'"),
        ("None < 1", "TypeError", "'<' not supported between instances of 'NoneType' and 'int'"),
        ("1 in 2", "TypeError", "argument of type 'int' is not iterable"),
        ("1 in \"a\"", "TypeError", "'in <string>' requires string as left operand, not int"),
        ("len(3)", "TypeError", "object of type 'int' has no len()"),
        ("-\"a\"", "TypeError", "bad operand type for unary -: 'str'"),
        ("range(1, 2, 0)", "ValueError", "range() arg 3 must not be zero"),
        ("(3).x", "AttributeError", "'int' object has no attribute 'x'"),
        ("{1: 2}", "TypeError", "the keys of a dict are texts, not 'int'"),
        ("[1] * 1.5", "TypeError", "can't multiply sequence by non-int of type 'float'"),
        ("\"x\" * 99999999999", "MemoryError", "a value is larger than 64 MiB"),
    ] {
        let lines = format!(
            "try:\n    x = {expression}\nexcept {type_name} as e:\n    return [e.type, e.message]\nreturn 0"
        );
        let expected = json!([type_name, message]).to_string();
        assert_eq!(returned(&lines).await, expected, "{expression}");
        let failed = value(expression).await;
        assert_eq!(failed, format!("{type_name}: {message}"), "{expression}");
    }
}

#[test]
async fn texts_lists_and_dicts() {
    check(&[
        (r#""a" < "b""#, "true"),
        (r#""a" + "b" * 3"#, r#""abbb""#),
        ("3 * [0] + [1]", "[0,0,0,1]"),
        ("[1] * -1", "[]"),
        ("[1, 2, 3][-1]", "3"),
        (r#""héllo"[1]"#, r#""é""#),
        (r#""héllo"[-1]"#, r#""o""#),
        (r#"len("héllo")"#, "5"),
        ("len([1, [2]])", "2"),
        ("len({})", "0"),
        (r#"{"b": 1, "a": 2}"#, r#"{"b":1,"a":2}"#),
        (r#"{"a": 1, "b": 2, "a": 3}"#, r#"{"a":3,"b":2}"#),
        (r#"{"a": {"b": [10, 20]}}.a.b[1]"#, "20"),
        (r#"{"a": 1, "b": 2} == {"b": 2, "a": 1}"#, "true"),
        ("[1, 2] == [1.0, True + 1]", "true"),
        ("[1, 2] < [1, 3]", "true"),
        ("[1] < [1, 0]", "true"),
        ("2 in [1, 2.0]", "true"),
        (r#""ell" in "hello""#, "true"),
        (r#""a" in {"a": 1}"#, "true"),
        (r#""b" not in {"a": 1}"#, "true"),
        ("not 1 in [2]", "true"),
        ("None == False", "false"),
        ("1 == True", "true"),
        ("[range(3), range(1, 3), range(5, 0, -2)]", "[[0,1,2],[1,2],[5,3,1]]"),
        (r#"enumerate("ab")"#, r#"[[0,"a"],[1,"b"]]"#),
        ("isexception({\"type\": \"E\", \"message\": \"m\"})", "false"),
    ])
    .await;
}

#[test]
async fn comparisons_chain_and_or_gives_an_operand() {
    check(
        &[
            ("1 < 2 < 3", "true"),
            ("3 > 2 > 2", "false"),
            ("1 < 3 > 2", "true"),
            ("1 == 1 in [1]", "true"),
            ("0 or \"\" or []", "[]"),
            ("0 or 5 or 6", "5"),
            ("1 and \"x\"", "\"x\""),
            ("1 and 0 and 1 / 0", "0"),
            ("1 or 1 / 0", "1"),
            ("not 0", "true"),
            ("not [0]", "false"),
            ("not not \"\"", "false"),
        ]
        .into_iter()
        .filter(|(_, expected)| *expected != "function")
        .collect::<Vec<_>>(),
    )
    .await;
}

#[test]
async fn what_is_short_cut_is_not_called() {
    let app = builder().action("boom", |_, _| Ok(json!(1))).start().await;
    let lines = "a = True or @boom()\nb = False and @boom()\nc = 1 > 2 > @boom()\nreturn [a, b, c]";
    let result = start(&app, &main_of(lines), json!({})).await.result().await;
    assert_eq!(result.unwrap(), json!([true, false, false]));
    assert_eq!(app.attempts_of("boom"), 0);
}

#[test]
async fn a_value_without_a_form_in_json_is_refused_where_it_leaves_the_program() {
    assert_eq!(value("1e308 * 10").await, "ValueError: inf has no form in JSON");
    assert_eq!(value("1e308 * 10 > 1e308").await, "true");
}

/// What Python makes of random expressions was recorded by `tests/python/make.py`.
#[test]
async fn random_expressions_come_to_what_python_makes_of_them() {
    let cases: Vec<Json> =
        serde_json::from_str(include_str!("../python/expressions.json")).unwrap();
    let mut lines = "out = []\n".to_string();
    for case in &cases {
        let expression = case["expression"].as_str().unwrap();
        lines += &format!("try:\n    x = {expression}\n    out = out + [[x]]\n");
        lines += "except Exception as e:\n    out = out + [e.type]\n";
    }
    let results: Vec<Json> =
        serde_json::from_str(&returned(&(lines + "return out")).await).unwrap();
    for (case, result) in cases.iter().zip(&results) {
        let expected = match case.get("raises") {
            Some(type_name) => type_name.clone(),
            None => json!([case["value"]]),
        };
        assert_eq!(*result, expected, "{}", case["expression"]);
    }
    assert_eq!(results.len(), cases.len());
}
