//! What an action's end means: its exit code and what it printed become a result or a failure.
//!
//! Pure, so that the contract can be checked as a table.

use std::time::Duration;

use resurgam_core::{Failure, Kind, Payload, duration};
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::manifest::Output;
use super::mask::Mask;

/// How much of standard error goes into the message of a failure.
const MESSAGE: usize = 2 << 10;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// What is left of a process.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) exit: Exit,
    pub(super) stdout: Vec<u8>,
    /// The end of standard error.
    pub(super) stderr: Vec<u8>,
}

/// The value that an action printed.
#[derive(Debug)]
pub(super) struct Printed {
    pub(super) value: Payload,
    /// What people are told about it: it was probably meant to be something else.
    pub(super) complaint: Option<String>,
}

/// What became of an attempt. What an action says about a failure must not tell its secrets.
pub(super) fn result(ended: &Ended, secrets: &Mask, output: Output) -> Result<Printed, Failure> {
    match ended.exit {
        Exit::Code(0) => printed(&ended.stdout, output),
        _ => Err(failed(ended, secrets)),
    }
}

/// The value that was printed: JSON, else a text, else null.
fn printed(stdout: &[u8], output: Output) -> Result<Printed, Failure> {
    let bad = |message: String| Failure::of_type("BadOutput", message);
    let text = std::str::from_utf8(stdout)
        .map_err(|_| bad("the action printed something that is not UTF-8".to_string()))?;
    let good = |value| Ok(Printed { value, complaint: None });
    let trimmed = text.trim();
    let error = match serde_json::from_str::<IgnoredAny>(trimmed) {
        // As it stands: a number too long for us is not too long for whoever reads it.
        Ok(_) => return good(Payload::from_text(trimmed)),
        Err(error) => error,
    };
    match output {
        Output::Json if trimmed.is_empty() => {
            let advice = "print null where there is nothing to say";
            return Err(bad(format!(
                "the action says that it prints JSON, and printed nothing; {advice}"
            )));
        }
        Output::Json => {
            return Err(bad(format!(
                "the action says that it prints JSON, and printed something else: {error}"
            )));
        }
        Output::Any if text.is_empty() => return good(Payload::null()),
        Output::Any => {}
    }
    let line = text.strip_suffix('\n').unwrap_or(text);
    let value = Payload::encode(line.strip_suffix('\r').unwrap_or(line)).map_err(Failure::from)?;
    let complaint = looks_like_json(trimmed).then(|| {
        format!(
            "what the action printed looks like JSON and is not ({error}), so it is taken for a \
             text; {{\"output\": \"json\"}} in its manifest makes that a failure"
        )
    });
    Ok(Printed { value, complaint })
}

/// True for a text that begins as an object or a list does, and not as a line of a log: `[INFO]`.
fn looks_like_json(text: &str) -> bool {
    let mut chars = text.chars().filter(|c| !c.is_whitespace());
    match (chars.next(), chars.next()) {
        (Some('{'), Some('"' | '}') | None) | (Some('['), None) => true,
        (Some('['), Some(next)) => matches!(next, '{' | '[' | ']' | '"' | '-' | '0'..='9'),
        _ => false,
    }
}

/// The failure that an action reported, or the one that its exit code is.
fn failed(ended: &Ended, secrets: &Mask) -> Failure {
    let said = secrets.text(&String::from_utf8_lossy(&ended.stderr));
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    let object = last.and_then(|line| serde_json::from_str::<Map<String, Value>>(line).ok());
    match object.filter(is_failure) {
        // Once more, as it reads: JSON can be written in many ways.
        Some(object) => reported(&secrets.fields(object)),
        None => exit_code(ended.exit, &said),
    }
}

/// A line of a log in JSON is not meant for us.
fn is_failure(object: &Map<String, Value>) -> bool {
    let known = ["type", "message", "retryable", "retry_after", "snooze", "prune"];
    known.iter().any(|field| object.contains_key(*field))
}

fn reported(object: &Map<String, Value>) -> Failure {
    read(object).unwrap_or_else(|what| {
        let message = format!("the failure that the action reported makes no sense: {what}");
        Failure::of_type("BadFailure", message).with_details(Value::Object(object.clone()))
    })
}

fn read(object: &Map<String, Value>) -> Result<Failure, String> {
    let text = |field: &str| match object.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(format!("{field}: {other} is not a text")),
    };
    if let Some(time) = object.get("snooze") {
        let mut failure = Failure::snooze(time_of("snooze", time)?);
        if let Some(message) = text("message")? {
            failure.message = message;
        }
        return Ok(failure);
    }
    if object.get("prune") == Some(&Value::Bool(true)) {
        return Ok(Failure::prune());
    }
    let mut failure = Failure::new(text("message")?.unwrap_or_default());
    failure.type_name = text("type")?;
    failure.code = text("code")?;
    failure.mro = match object.get("mro") {
        None | Some(Value::Null) => Vec::new(),
        Some(list) => serde_json::from_value(list.clone())
            .map_err(|_| format!("mro: {list} is not a list of texts"))?,
    };
    failure.retryable = match object.get("retryable") {
        None | Some(Value::Null) => None,
        // What may be tried again is for the rules to say; what may not is for the action.
        Some(Value::Bool(true)) => None,
        Some(Value::Bool(false)) => Some(false),
        Some(other) => return Err(format!("retryable: {other} is neither true nor false")),
    };
    if let Some(time) = object.get("retry_after").filter(|time| !time.is_null()) {
        failure.kind = Kind::Throttled;
        failure.retry_after = Some(time_of("retry_after", time)?);
    }
    failure.details = object.get("details").filter(|details| !details.is_null()).cloned();
    Ok(failure)
}

fn time_of(field: &str, value: &Value) -> Result<Duration, String> {
    let Some(text) = value.as_str() else {
        return Err(format!("{field}: {value} is not a time such as \"30s\""));
    };
    duration::parse(text).map_err(|what| format!("{field}: {text:?} {what}"))
}

fn exit_code(exit: Exit, said: &str) -> Failure {
    let (code, how) = match exit {
        Exit::Code(code) => (code, format!("exit code {code}")),
        // As shells count it.
        Exit::Signal(signal) => (128 + signal, format!("ended by signal {signal}")),
    };
    let tail = tail(said.trim(), MESSAGE);
    let message = if tail.is_empty() { how } else { format!("{how}: {tail}") };
    Failure::of_type("ExitCode", message).with_code(code.to_string())
}

/// The end of a text, from the beginning of a line where that is near.
fn tail(text: &str, most: usize) -> &str {
    let mut start = text.len().saturating_sub(most);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let rest = &text[start..];
    match rest.find('\n').filter(|end| start > 0 && *end < most / 2) {
        Some(end) => &rest[end + 1..],
        None => rest,
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    fn ended(exit: Exit, stdout: &str, stderr: &str) -> Result<Payload, Failure> {
        let (stdout, stderr) = (stdout.as_bytes().to_vec(), stderr.as_bytes().to_vec());
        let secrets = [("TOKEN", "hunter2"), ("KEY", "-----BEGIN\nMIIEvQIBADAN\n-----END\n")];
        let secrets = secrets.map(|(name, value)| (name.to_string(), value.to_string().into()));
        let secrets = Mask::new(secrets.to_vec());
        let ended = result(&Ended { exit, stdout, stderr }, &secrets, Output::Any);
        ended.map(|printed| printed.value)
    }

    fn failure(stderr: &str) -> Failure {
        ended(Exit::Code(1), "", stderr).unwrap_err()
    }

    #[test]
    fn what_is_printed_is_json_or_a_text_or_nothing() {
        for (printed, value) in [
            ("{\"a\": 1}\n", "{\"a\": 1}"),
            (" [1,\n 2] \n", "[1,\n 2]"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("hello\n", "\"hello\""),
            ("hello\r\n", "\"hello\""),
            ("two\nlines\n\n", "\"two\\nlines\\n\""),
            ("{\"a\": ", "\"{\\\"a\\\": \""),
            ("", "null"),
            ("\n", "\"\""),
        ] {
            assert_eq!(ended(Exit::Code(0), printed, "").unwrap().as_str(), value, "{printed:?}");
        }
        let bytes = Ended { exit: Exit::Code(0), stdout: vec![0xff], stderr: Vec::new() };
        let failure = result(&bytes, &Mask::default(), Output::Any).unwrap_err();
        assert_eq!(failure.type_name.as_deref(), Some("BadOutput"));
    }

    #[test]
    fn where_json_was_promised_anything_else_is_a_failure() {
        let promised = |text: &str| printed(text.as_bytes(), Output::Json);
        for json in ["{\"a\": 1}\n", "null", " 7 "] {
            assert_eq!(promised(json).unwrap().value.as_str(), json.trim());
        }
        for (text, expected) in [
            ("{\"a\": ", "printed something else: EOF while parsing a value at line 1 column 5"),
            ("hello\n", "printed something else: expected value at line 1 column 1"),
            ("", "printed nothing; print null where there is nothing to say"),
        ] {
            let failure = promised(text).unwrap_err();
            assert_eq!(failure.type_name.as_deref(), Some("BadOutput"), "{text:?}");
            assert!(failure.message.ends_with(expected), "{failure}");
        }
    }

    #[test]
    fn elsewhere_people_are_told_of_what_looks_like_broken_json() {
        let complaint = |text: &str| printed(text.as_bytes(), Output::Any).unwrap().complaint;
        for broken in ["{\"a\": 1", "[1, 2", "{\n", "[{\"a\": 1},]", "{\"a\": 1}\n{\"b\": 2}\n"] {
            assert!(complaint(broken).is_some(), "{broken:?}");
        }
        for text in ["", "done", "[INFO] done", "[2", "{name} is here", "[1, 2]", "\"text\""] {
            assert_eq!(complaint(text).is_some(), text == "[2", "{text:?}");
        }
    }

    #[test]
    fn an_exit_code_alone_is_a_failure_with_the_end_of_standard_error() {
        let failure = ended(Exit::Code(3), "ignored", "first\nlast\n").unwrap_err();
        assert_eq!(failure.to_string(), "ExitCode: exit code 3: first\nlast");
        assert_eq!(failure.code.as_deref(), Some("3"));
        assert_eq!(failure.retryable, None);
        let killed = ended(Exit::Signal(9), "", "").unwrap_err();
        assert_eq!(killed.to_string(), "ExitCode: ended by signal 9");
        assert_eq!(killed.code.as_deref(), Some("137"));
        let long = "x".repeat(100_000) + "\nthe end";
        assert_eq!(self::failure(&long).message.len(), "exit code 1: ".len() + MESSAGE);
        assert!(self::failure(&long).message.ends_with("\nthe end"));
    }

    #[test]
    fn the_last_line_of_standard_error_can_be_the_failure() {
        let said = r#"working
            {"type":"Busy","message":"later","mro":["Busy","Net"],"retryable":true,"code":"7",
"#;
        assert_eq!(failure(said).type_name.as_deref(), Some("ExitCode"), "an object in two lines");
        let failure = failure(
            "working\n{\"type\":\"Busy\",\"message\":\"later\",\"mro\":[\"Busy\",\"Net\"],\
             \"retry_after\":\"5s\",\"details\":{\"left\":2}}\n\n",
        );
        assert_eq!(failure.to_string(), "Busy: later");
        assert!(failure.has_type("Net", true));
        assert_eq!(failure.retry_after, Some(Duration::from_secs(5)));
        assert_eq!(failure.details, Some(serde_json::json!({"left": 2})));
    }

    #[test]
    fn only_false_says_anything_about_retrying() {
        let retryable =
            |value: &str| failure(&format!("{{\"type\":\"T\",\"retryable\":{value}}}")).retryable;
        assert_eq!(
            [retryable("true"), retryable("null"), retryable("false")],
            [None, None, Some(false)]
        );
    }

    #[test]
    fn an_action_can_ask_to_be_run_later_and_can_prune_its_branch() {
        assert_eq!(failure("{\"snooze\":\"30s\"}").snooze, Some(Duration::from_secs(30)));
        let why = failure("{\"snooze\":\"30s\",\"message\":\"not yet\"}");
        assert_eq!((why.snooze, why.message.as_str()), (Some(Duration::from_secs(30)), "not yet"));
        assert!(failure("{\"prune\":true}").is_pruned());
    }

    #[test]
    fn a_log_line_in_json_is_no_failure_and_nonsense_in_a_failure_is_named() {
        let log = failure("{\"level\":\"error\",\"msg\":\"boom\"}");
        assert_eq!(log.type_name.as_deref(), Some("ExitCode"));
        for (said, what) in [
            ("{\"snooze\":30}", "snooze: 30 is not a time such as \"30s\""),
            ("{\"type\":7}", "type: 7 is not a text"),
            ("{\"message\":\"m\",\"mro\":\"x\"}", "mro: \"x\" is not a list of texts"),
            ("{\"retryable\":\"no\"}", "retryable: \"no\" is neither true nor false"),
        ] {
            let failure = failure(said);
            assert_eq!(failure.type_name.as_deref(), Some("BadFailure"));
            assert!(failure.message.ends_with(what), "{}", failure.message);
        }
    }

    #[test]
    fn what_an_action_says_about_its_failure_does_not_tell_secrets() {
        let plain = failure("curl: token hunter2 was refused");
        assert_eq!(plain.message, "exit code 1: curl: token [TOKEN] was refused");
        let object = failure("{\"type\":\"Refused\",\"message\":\"hunter2\"}");
        assert_eq!(object.message, "[TOKEN]");
    }

    #[test]
    fn a_secret_of_several_lines_is_not_told_by_a_failure_in_json() {
        for key in [
            r"-----BEGIN\nMIIEvQIBADAN\n-----END\n",
            // Without the line break at the end, as a shell hands it on.
            r"-----BEGIN\nMIIEvQIBADAN\n-----END",
            r"-----BEGIN\u000aMIIEvQIBADAN\u000A-----END",
            // Inside of JSON inside of the message.
            r#"{\"key\":\"-----BEGIN\\nMIIEvQIBADAN\\n-----END\\n\"}"#,
            "MIIEvQIBADAN",
        ] {
            let said = format!(
                "{{\"type\":\"Refused\",\"message\":\"no {key}\",\"details\":[\"{key}\"]}}"
            );
            let failure = failure(&said);
            assert_eq!(failure.type_name.as_deref(), Some("Refused"), "{said}");
            assert!(failure.message.contains("[KEY]"), "{failure}");
            let told = serde_json::to_string(&failure).unwrap();
            assert!(!told.contains("MIIEvQIBADAN"), "{told}");
        }
    }
}
