//! Input of every bad sort: refused with its place, never a panic.

use std::fs::File;

use expect_test::expect;
use resurgam_watchdog::test;

use crate::policy::run::{Folder, Ran, finish, policy, run, run_with};
use crate::processes;

/// Every command that reads a file refuses it in the same way.
const COMMANDS: [&str; 5] = [
    "check FILE",
    "explain FILE",
    "explain FILE --svg",
    "convert FILE --to edda",
    "convert FILE --from edda --to canonical",
];

fn refused_everywhere(folder: &Folder, file: &str, says: &str) {
    for command in COMMANDS {
        let ran = folder.policy(&command.replace("FILE", file));
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{command}: {ran:?}");
        assert!(ran.stderr.contains(file), "{command}: {}", ran.stderr);
        assert!(ran.stderr.contains(says), "{command}: {}", ran.stderr);
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named_with_the_reason() {
    let folder = Folder::new("unreadable")
        .with("large.json", vec![b' '; (1 << 20) + 1])
        .with("latin1.json", b"{\"max_attempts\": \"\xe9\"}")
        .with("empty.json", "")
        .with("blank.json", " \n\t\n");
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    refused_everywhere(
        &folder,
        "no-such.json",
        "error: C1 read no-such.json: there is no such file",
    );
    refused_everywhere(&folder, "folder", "error: C1 read folder: it is a directory");
    refused_everywhere(&folder, "large.json", "it is larger than 1 MiB");
    refused_everywhere(&folder, "latin1.json", "not UTF-8 text from byte 19 on");
    refused_everywhere(&folder, "empty.json", "it is empty");
    refused_everywhere(&folder, "blank.json", "it is empty");
    refused_everywhere(&folder, "empty.json/policy.json", "Not a directory");
}

#[test]
fn a_misspelt_preset_is_answered_with_the_nearest() {
    let ran = run("explain edda.defualt");
    assert_eq!(
        ran.all(),
        "error: C1 read edda.defualt: there is no such file or preset; did you mean \
         \"edda.default\"?\nexit 2\n"
    );
}

#[test]
fn broken_syntax_is_shown_in_its_place() {
    let folder = Folder::new("syntax")
        .with("open.json", "{\n  \"max_attempts\": 3,\n  \"jitter\": \"full\"\n")
        .with("comma.json", "{\n  \"max_attempts\": 3,\n}")
        .with("text.json", "max_attempts: 3")
        .with("twice.json", "{\"max_attempts\": 3, \"max_attempts\": 4}")
        .with("deep.json", "[".repeat(100_000))
        .with("broken.toml", "max_attempts = \n[backoff\n")
        .with("twice.toml", "max_attempts = 3\nmax_attempts = 4\n");
    refused_everywhere(&folder, "open.json", "open.json:3:19\n");
    refused_everywhere(&folder, "comma.json", "comma.json:3:1\n");
    refused_everywhere(&folder, "text.json", "text.json:1:1\n");
    refused_everywhere(&folder, "twice.json", "max_attempts: given twice");
    refused_everywhere(&folder, "deep.json", "recursion limit exceeded");
    refused_everywhere(&folder, "broken.toml", "broken.toml:1:16\n");
    refused_everywhere(&folder, "twice.toml", "twice.toml:2:1\n");
    expect![[r#"
        open.json:3:19
          3 |   "jitter": "full"
            |                   ^
        error: P1 not JSON: the text ends inside an object
        exit 2
    "#]]
    .assert_eq(&folder.policy("check open.json").all());
    expect![[r#"
        broken.toml:1:16
          1 | max_attempts = 
            |                ^
        error: P1 not TOML: string values must be quoted, expected literal string

        broken.toml:2:9
          2 | [backoff
            |         ^
        error: P1 not TOML: unclosed table, expected `]`
        exit 2
    "#]]
    .assert_eq(&folder.policy("check broken.toml").all());
}

#[test]
fn broken_brackets_are_shown_in_their_place() {
    let folder = Folder::new("brackets").with("policy.ir", "[retry: 3]\n[A -> retyr: 1]\n");
    expect![[r#"
        policy.ir:2:7
          2 | [A -> retyr: 1]
            |       ^
        error: P3 unknown field "retyr"; did you mean "retry"?
        exit 2
    "#]]
    .assert_eq(&folder.policy("check policy.ir --from rappel_ir").all());
}

#[test]
fn standard_input_is_named_in_messages() {
    let ran = run_with("check -", "{\n\"max_attempts\": 0}");
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.starts_with("<stdin>:2:1\n"), "{}", ran.stderr);
    for (input, says) in [(&b""[..], "empty"), (b"\xff", "UTF-8"), (b"{", "<stdin>:1:2")] {
        let ran = run_with("explain -", input);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
        assert!(ran.stderr.contains(says), "{}", ran.stderr);
    }
}

#[test]
fn values_of_the_wrong_kind_are_refused_in_every_dialect() {
    let dialects =
        ["canonical", "edda", "duroxide", "rappel_ir", "rappel_py", "cadence", "exosphere"];
    for dialect in dialects {
        for input in
            ["[]", "null", "\"\"", "-1", "{\"\": 1}", "{\"max_attempts\": {}, \"attempts\": []}"]
        {
            let ran = run_with(&format!("check - --from {dialect}"), input);
            assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{dialect} {input}: {ran:?}");
            assert!(ran.stderr.contains("error: "), "{dialect} {input}: {}", ran.stderr);
        }
    }
}

#[test]
fn an_unknown_dialect_is_answered_with_those_there_are() {
    let ran = run("check default --from eda");
    assert_eq!(ran.code, 2);
    let known = "canonical, edda, duroxide, rappel_ir, rappel_py, cadence, exosphere";
    assert!(ran.stderr.contains(known), "{}", ran.stderr);
    assert!(ran.stderr.contains("similar value exists: 'edda'"), "{}", ran.stderr);
}

#[test]
fn with_json_a_refusal_is_a_value_too() {
    for command in ["explain", "check", "convert --to edda"] {
        let ran = run_with(&format!("{command} - --json"), "{");
        assert_eq!((ran.code, ran.stderr.as_str()), (2, ""), "{command}");
        assert_eq!(ran.json()["ok"], false, "{command}");
        assert_eq!(ran.json()["errors"][0]["column"], 2, "{command}");
    }
}

#[test]
fn a_file_cannot_steer_the_terminal() {
    let ran = run_with("check -", "{\"\\u001b[2J\": 1, \"b\u{9b}\": 2}");
    assert_eq!(ran.code, 2);
    assert!(!ran.stderr.contains(['\u{1b}', '\u{9b}']), "{:?}", ran.stderr);
}

#[test]
fn nobody_listening_is_no_failure() {
    for command in ["explain default", "schema", "convert default --to canonical", "check default"]
    {
        let mut child = policy(command).spawn().unwrap();
        drop(child.stdout.take());
        let output = processes::ended(child, command);
        assert_eq!(output.status.code(), Some(0), "{command}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{command}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_answer_that_cannot_be_written_ends_with_1() {
    for (command, input) in [("explain default", ""), ("eval", "5\n")] {
        let mut full = policy(command);
        full.stdout(File::options().write(true).open("/dev/full").unwrap());
        let Ran { code, stderr, .. } = finish(full, input.as_bytes());
        assert_eq!(code, 1, "{command}");
        assert!(stderr.starts_with("error: C6 write"), "{command}: {stderr}");
    }
}

#[test]
fn help_and_version_are_there_and_the_exit_codes_are_documented() {
    for arguments in ["--help", "eval --help", "explain --help", "convert --help", "check --help"] {
        let ran = run(arguments);
        assert_eq!(ran.code, 0, "{arguments}");
        assert!(ran.stdout.contains("Exit codes: 0 done, "), "{arguments}: {}", ran.stdout);
    }
    let mut version = std::process::Command::new(env!("CARGO_BIN_EXE_resurgam"));
    let version = processes::output(version.arg("--version").stdin(std::process::Stdio::null()));
    let version = String::from_utf8(version.stdout).unwrap();
    assert_eq!(version, format!("resurgam {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(run("").code, 2);
    assert_eq!(run("chekc default").code, 2);
}
