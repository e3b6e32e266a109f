//! Whether an instance that is there was started from the same program with the same input.

use resurgam_core::Payload;
use resurgam_graph::SecretsKey;
use resurgam_ir::{Program, ProgramInput};
use serde_json::Value;

use super::interpret::Kind;

/// What is different about an instance of this argument, in words; `None` when it is the same.
pub(crate) fn difference(
    there: &Payload,
    wanted: &Payload,
    key: Option<&SecretsKey>,
) -> Option<String> {
    match (Kind::of(there), Kind::of(wanted)) {
        (Ok(Kind::Program), Ok(Kind::Program)) => programs(there, wanted),
        (Ok(Kind::Graph), Ok(Kind::Graph)) => graphs(there, wanted, key),
        (Err(what), _) | (_, Err(what)) => Some(what),
        (Ok(Kind::Program), _) => Some("it runs a program, not a graph".to_string()),
        (Ok(Kind::Graph), _) => Some("it runs a graph, not a program".to_string()),
    }
}

fn programs(there: &Payload, wanted: &Payload) -> Option<String> {
    let read = |payload: &Payload| payload.decode::<ProgramInput>().ok();
    let (Some(old), Some(new)) = (read(there), read(wanted)) else {
        return Some("its program cannot be read".to_string());
    };
    if old.dialect != new.dialect {
        let (old, new) = (old.dialect.name(), new.dialect.name());
        return Some(format!("its program was read as {old}, and this one as {new}"));
    }
    let tree = |input: &ProgramInput| Program::read("program", &input.program, Some(input.dialect));
    // Comments and blanks change nothing.
    let same = old.program == new.program
        || tree(&old).ok().zip(tree(&new).ok()).is_some_and(|(old, new)| old == new);
    if !same {
        return Some(program_line(&old.program, &new.program));
    }
    let value = |payload: &Payload| payload.decode::<Value>().unwrap_or_default();
    let keys = keys(&value(there)["inputs"], &value(wanted)["inputs"]);
    (!keys.is_empty()).then(|| format!("its input is another one: {}", keys.join(", ")))
}

/// Names the first line that differs.
fn program_line(old: &str, new: &str) -> String {
    let same = old.lines().zip(new.lines()).take_while(|(old, new)| old == new).count();
    let line = |text: &str| text.lines().nth(same).unwrap_or("(the end)").trim().to_string();
    let (number, old, new) = (same + 1, line(old), line(new));
    format!("its program is another one: line {number} was `{old}` and is `{new}`")
}

fn graphs(there: &Payload, wanted: &Payload, key: Option<&SecretsKey>) -> Option<String> {
    let read = |payload: &Payload| payload.decode::<Value>().unwrap_or_default();
    let (old, new) = (read(there), read(wanted));
    if old["graph"] != new["graph"] {
        let keys = keys(&old["graph"], &new["graph"]);
        return Some(format!("its graph is another one: {}", keys.join(", ")));
    }
    for (field, name) in [("inputs", "input"), ("store", "store")] {
        let keys = keys(&old[field], &new[field]);
        if !keys.is_empty() {
            return Some(format!("its {name} is another one: {}", keys.join(", ")));
        }
    }
    let secrets = secrets(&old["secrets"], &new["secrets"], key);
    (!secrets.is_empty()).then(|| format!("its secrets are others: {}", secrets.join(", ")))
}

/// The names of secrets that differ. Encrypted, the same secret looks different every time.
fn secrets(old: &Value, new: &Value, key: Option<&SecretsKey>) -> Vec<String> {
    let clear = |secrets: &Value, name: &str| {
        let stored = secrets.get(name)?.as_str()?.to_string();
        key?.decrypt(name, &stored).ok()
    };
    let differs = |name: &String| {
        // What a server shows of secrets, too: their names.
        if old.get(name) == new.get(name) {
            return false;
        }
        let (old, new) = (clear(old, name), clear(new, name));
        old.is_none() || old != new
    };
    names(old, new).into_iter().filter(differs).collect()
}

/// The keys under which two objects differ.
fn keys(old: &Value, new: &Value) -> Vec<String> {
    names(old, new).into_iter().filter(|name| old.get(name) != new.get(name)).collect()
}

fn names(old: &Value, new: &Value) -> Vec<String> {
    let of = |value: &Value| -> Vec<String> {
        value.as_object().map(|object| object.keys().cloned().collect()).unwrap_or_default()
    };
    let mut names = of(old);
    names.extend(of(new).into_iter().filter(|name| old.get(name).is_none()));
    names
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;
    use serde_json::json;

    use super::*;

    fn payload(value: &Value) -> Payload {
        Payload::encode(value).unwrap()
    }

    fn program(text: &str, inputs: &Value) -> Payload {
        payload(&json!({"program": text, "dialect": "rappel", "guessed": true, "inputs": inputs}))
    }

    const MAIN: &str = "fn main(input: [n], output: [r]):\n    return @f(n=n)\n";

    #[test]
    fn a_program_with_another_layout_is_the_same_one() {
        let there = program(MAIN, &json!({"n": 1}));
        let wanted = program(&MAIN.replace("    ", "  # a comment\n  "), &json!({"n": 1}));
        assert_eq!(difference(&there, &wanted, None), None);
    }

    #[test]
    fn another_program_and_another_input_are_named() {
        let there = program(MAIN, &json!({"n": 1}));
        let other = program(&MAIN.replace("@f", "@g"), &json!({"n": 1}));
        assert_eq!(
            difference(&there, &other, None).unwrap(),
            "its program is another one: line 2 was `return @f(n=n)` and is `return @g(n=n)`"
        );
        let input = program(MAIN, &json!({"n": 2}));
        assert_eq!(difference(&there, &input, None).unwrap(), "its input is another one: n");
        let graph = payload(&json!({"graph": {}}));
        assert_eq!(difference(&there, &graph, None).unwrap(), "it runs a program, not a graph");
    }

    #[test]
    fn secrets_are_compared_by_what_they_say_and_told_by_their_names_only() {
        let key = SecretsKey::from_text(&SecretsKey::generate_text()).unwrap();
        let run = |token: &str| {
            let secrets = json!({"token": key.encrypt("token", token)});
            payload(&json!({"graph": {}, "inputs": {}, "store": {}, "secrets": secrets}))
        };
        assert_eq!(difference(&run("hunter2"), &run("hunter2"), Some(&key)), None);
        let other = difference(&run("hunter2"), &run("hunter3"), Some(&key)).unwrap();
        assert_eq!(other, "its secrets are others: token");
    }
}
