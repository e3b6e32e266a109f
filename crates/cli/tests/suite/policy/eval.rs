//! Questions in, answers out.

use std::io::Write;

use expect_test::expect;
use resurgam_watchdog::test;
use serde_json::{Value, json};

use crate::policy::run::{policy, run_with};
use crate::processes::{self, Lines};

const VECTORS: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../core/tests/vectors/retry_vectors.json"));

/// The lines of the vectors without what they expect.
fn question(row: &Value) -> String {
    let mut row = row.clone();
    row.as_object_mut().unwrap().remove("expected");
    row.to_string()
}

#[test]
fn every_vector_is_answered_as_it_expects() {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    let rows = vectors["vectors"].as_array().unwrap();
    assert_eq!(rows.len() as u64, vectors["count"].as_u64().unwrap());
    let input = rows.iter().map(question).collect::<Vec<_>>().join("\n");
    let ran = run_with("eval", input);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let answers: Vec<Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), rows.len());
    for (row, answer) in rows.iter().zip(answers) {
        match row["expected"]["error_names_field"].as_str() {
            Some(field) => {
                let error = answer["error"].as_str().unwrap_or_default();
                assert!(error.contains(field), "{row}: {answer}");
            }
            None => assert_eq!(answer, row["expected"], "{row}"),
        }
    }
}

#[test]
fn broken_lines_between_good_ones_are_answered_in_their_place() {
    let good = |index: u32| {
        let config = json!({"backoff_coefficient": 3.0});
        json!({"dialect": "edda", "kind": "delay", "config": config, "retry_index": index})
            .to_string()
            .into_bytes()
    };
    let lines: [Vec<u8>; 12] = [
        good(1),
        b"{\"dialect\":".to_vec(),
        good(2),
        b"\x80\x81".to_vec(),
        b"".to_vec(),
        b" \t\r".to_vec(),
        br#"{"dialect":"temporal","kind":"delay","config":{},"retry_index":1}"#.to_vec(),
        br#"{"dialect":"edda","kind":"dealy","config":{},"retry_index":1}"#.to_vec(),
        br#"{"dialect":"edda","kind":"delay","config":{},"retry_index":4294967296}"#.to_vec(),
        br#"{"dialect":"edda","kind":"decision","config":{"max_attempts":0},"failed_attempt":1}"#
            .to_vec(),
        br#"{"kind":"schedule"}"#.to_vec(),
        good(3),
    ];
    let ran = run_with("eval", lines.join(&b'\n'));
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    expect![[r#"
        {"delay_ms":1000}
        {"error":"not JSON: EOF while parsing a value at line 1 column 11"}
        {"delay_ms":3000}
        {"error":"not UTF-8 text from byte 1 on"}
        {"error":"dialect: \"temporal\" is not a dialect; known are canonical, edda, duroxide, rappel_ir, rappel_py, cadence, exosphere"}
        {"error":"kind: \"dealy\" is unknown; did you mean \"delay\"?"}
        {"error":"retry_index: 4294967296 is not a whole number of failures from 1 to 4294967295"}
        {"error":"max_attempts: 0 is not allowed; it counts the first attempt. Use 1 for no retries or null."}
        {"error":"dialect: missing, and required; config: missing, and required"}
        {"delay_ms":9000}
    "#]].assert_eq(&ran.stdout);
}

#[test]
fn an_answer_comes_before_the_next_question_is_asked() {
    let mut child = policy("eval").spawn().unwrap();
    let mut questions = child.stdin.take().unwrap();
    let answers = Lines::of(child.stdout.take().unwrap());
    for (index, delay) in [(1, 1000), (2, 2000), (3, 4000)] {
        let question =
            json!({"dialect": "edda", "kind": "delay", "config": {}, "retry_index": index});
        writeln!(questions, "{question}").unwrap();
        let answer = answers.hear("an answer to the question").unwrap();
        assert_eq!(answer, format!("{{\"delay_ms\":{delay}}}"));
    }
    drop(questions);
    assert!(processes::ended(child, "policy eval").status.success());
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let mut child = policy("eval").spawn().unwrap();
    drop(child.stdout.take());
    let mut questions = child.stdin.take().unwrap();
    // The pipe may be closed before all of them are written.
    let _ = questions.write_all("5\n".repeat(1000).as_bytes());
    drop(questions);
    let output = processes::ended(child, "policy eval");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn answers_have_the_documented_shapes() {
    let ask = |question: Value| run_with("eval", question.to_string()).stdout;
    let decision = |config: Value, more: Value| {
        let mut question = json!({"dialect": "canonical", "kind": "decision", "config": config});
        question.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ask(question)
    };
    assert_eq!(
        decision(json!({}), json!({"failed_attempt": 1})),
        "{\"retry\":true,\"delay_ms_range\":[500,1500]}\n"
    );
    assert_eq!(
        decision(json!({}), json!({"failed_attempt": 10})),
        "{\"retry\":false,\"reason\":\"max_attempts\"}\n"
    );
    let snooze = json!({"failed_attempt": 1, "error": {"kind": "requeue_after", "delay_ms": 5000}});
    assert_eq!(
        decision(json!({}), snooze),
        "{\"retry\":true,\"delay_ms\":5000,\"counts_as_failure\":false}\n"
    );
    assert_eq!(
        ask(json!({"dialect": "canonical", "kind": "schedule", "config": 3, "u": 1.0})),
        "{\"attempts\":3,\"delays_ms\":[1500,3000],\"delays_ms_range\":[[500,1500],[1000,3000]],\
         \"total_delay_ms\":4500}\n"
    );
}
