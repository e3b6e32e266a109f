//! Everything public that people write against is shown by an example that runs.
//!
//! The rule: a type has an example in its documentation; a function has one of its own, or is used
//! by the example of its type, or by one in the same file. An example that is ignored shows
//! nothing. Whether examples run is for the doc tests to say; this test only looks for what they
//! leave out.

use resurgam_watchdog::test;

/// The files whose public items people write against.
const FACE: [&str; 36] = [
    "core/src/failure.rs",
    "core/src/failure_type.rs",
    "core/src/payload.rs",
    "core/src/retry/builder.rs",
    "core/src/retry/check.rs",
    "core/src/retry/policy.rs",
    "core/src/schedule/options.rs",
    "core/src/schedule/rule.rs",
    "core/src/time.rs",
    "resurgam/src/app.rs",
    "resurgam/src/client.rs",
    "resurgam/src/export.rs",
    "resurgam/src/instance.rs",
    "resurgam/src/instance_handle.rs",
    "resurgam/src/look.rs",
    "resurgam/src/postgres.rs",
    "resurgam/src/schedule.rs",
    "resurgam/src/sqlite.rs",
    "sdk/src/activity.rs",
    "sdk/src/construct.rs",
    "sdk/src/context/call.rs",
    "sdk/src/context/child.rs",
    "sdk/src/context/join.rs",
    "sdk/src/context/mod.rs",
    "sdk/src/terminal.rs",
    "sdk/src/typed.rs",
    "sdk/src/workflow.rs",
    "store-sqlite/src/options.rs",
    "testing/src/app/asking.rs",
    "testing/src/app/instance.rs",
    "testing/src/app/looking.rs",
    "testing/src/app/mod.rs",
    "testing/src/builder.rs",
    "testing/src/faults.rs",
    "testing/src/replay.rs",
    "worker/src/error.rs",
];

/// What is public for our own crates, and what cannot be shown without a server.
const NOT_SHOWN: [&str; 35] = [
    // The engine and the test kit are made of these.
    "ActivityContext::new",
    "ActivityContext::transact",
    "AppBuilder::on",
    "Attempt",
    "AttemptHost",
    "CallFuture",
    "ChildFuture",
    "ActivityContext::place",
    "Client::activities_changed",
    "Client::handle",
    "Client::new",
    "Error::store",
    "HostFuture",
    "JoinAll",
    "Parts",
    "Parts::activity",
    "Parts::engine",
    "Parts::note",
    "Parts::workflow",
    "Race",
    "Setup",
    "Setup::add",
    "Setup::run",
    "TestBuilder::activities_in",
    "TestBuilder::start_on",
    "WorkflowContext::new",
    "call_by_name",
    // Their fields are what there is to know.
    "ActivityOptions",
    "FailureRecord",
    "PendingCall",
    "ScheduleDescription",
    // Examples of PostgreSQL need a server: docs/postgres.md is compiled.
    "AppBuilder::postgres_options",
    "Client::postgres_with",
    "TestBuilder::postgres_options",
    "ReplayError",
];

/// A public item: its name, with the type before it for a method, and its documentation.
#[derive(Debug)]
struct Item {
    name: String,
    docs: String,
}

#[test]
fn every_public_item_is_shown_by_an_example() {
    let files: Vec<(&str, Vec<Item>, String)> =
        FACE.iter().map(|file| (*file, items(&read(file)), examples(&read(file)))).collect();
    let mut missing = Vec::new();
    for (file, items, shown_here) in &files {
        for item in items {
            let of_type = item.name.split_once("::").map(|(name, _)| name);
            let type_docs =
                files.iter().flat_map(|file| &file.1).find(|i| Some(&*i.name) == of_type);
            let shown = format!("{shown_here}{}", type_docs.map_or("", |i| i.docs.as_str()));
            if !is_shown(item, &shown) && !NOT_SHOWN.contains(&item.name.as_str()) {
                missing.push(format!("{file}: {}", item.name));
            }
        }
    }
    assert!(missing.is_empty(), "no example shows\n{}", missing.join("\n"));
    let all: usize = files.iter().map(|file| file.1.len()).sum();
    assert!(all > 300, "only {all} public items were found");
}

#[test]
fn what_need_not_be_shown_exists() {
    let names: Vec<String> =
        FACE.iter().flat_map(|file| items(&read(file))).map(|item| item.name).collect();
    let gone = NOT_SHOWN.iter().filter(|name| !names.iter().any(|item| item == *name));
    assert_eq!(gone.collect::<Vec<_>>(), Vec::<&&str>::new());
}

fn read(file: &str) -> String {
    let text = resurgam_checks::read(&format!("crates/{file}"));
    text.split("#[cfg(test)]").next().unwrap().to_string()
}

/// It has an example of its own, or its name is used by another one.
fn is_shown(item: &Item, examples_around: &str) -> bool {
    let own = !examples(&item.docs).is_empty();
    let name = item.name.rsplit("::").next().unwrap();
    own || examples_around.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == name)
}

/// The code of all examples in documentation that are run or compiled.
fn examples(text: &str) -> String {
    let mut code = String::new();
    let mut fence: Option<bool> = None;
    for line in text.lines().map(str::trim_start) {
        let Some(line) = line.strip_prefix("///").or(line.strip_prefix("//!")) else { continue };
        match (line.trim_start().strip_prefix("```"), fence) {
            (Some(info), None) => fence = Some(!info.contains("ignore") && !info.contains("text")),
            (Some(_), Some(_)) => fence = None,
            (None, Some(true)) => code += &format!("{line}\n"),
            (None, _) => {}
        }
    }
    code
}

/// The public items of a file, and the methods of its types.
fn items(text: &str) -> Vec<Item> {
    let mut items = Vec::new();
    let mut docs = String::new();
    let mut of: Option<String> = None;
    for line in text.lines() {
        if line.trim_start().starts_with("///") {
            docs += &format!("{line}\n");
            continue;
        }
        // Attributes stand between the documentation and its item, some over several lines.
        if line.trim_start().starts_with("#[") || line.ends_with("\",") || line == ")]" {
            let hidden = line.contains("doc(hidden)");
            docs = if hidden { "hidden".to_string() } else { docs };
            continue;
        }
        match line {
            "}" => of = None,
            _ if line.starts_with("impl") => of = implemented(line),
            _ => items.extend(
                name(line, of.as_deref())
                    .filter(|_| docs != "hidden")
                    .map(|name| Item { name, docs: docs.clone() }),
            ),
        }
        docs.clear();
    }
    items
}

/// The type whose own methods begin with this line.
fn implemented(line: &str) -> Option<String> {
    let line = line.split(" for ").next().filter(|head| *head == line)?;
    let rest = line.strip_prefix("impl")?;
    let rest = if rest.starts_with('<') { rest.split_once("> ")?.1 } else { rest };
    Some(word(rest.trim_start()))
}

fn name(line: &str, of: Option<&str>) -> Option<String> {
    let method = line.strip_prefix("    pub ");
    let rest = method.or_else(|| line.strip_prefix("pub "))?;
    let rest = rest.trim_start_matches("const ").trim_start_matches("async ");
    if let (Some(function), Some(of)) = (rest.strip_prefix("fn ").filter(|_| method.is_some()), of)
    {
        return Some(format!("{of}::{}", word(function)));
    }
    let kinds = ["fn ", "struct ", "enum ", "trait ", "type "];
    let item =
        kinds.iter().find_map(|kind| rest.strip_prefix(kind)).filter(|_| method.is_none())?;
    Some(word(item))
}

fn word(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}
