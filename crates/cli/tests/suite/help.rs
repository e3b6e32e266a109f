//! The program describes itself: completions and manual pages.

use std::process::{Command, Output, Stdio};

use resurgam_watchdog::test;

use crate::processes;

fn resurgam(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_resurgam"));
    processes::output(command.args(args).stdin(Stdio::null()))
}

#[test]
fn completions_are_made_for_every_shell_and_know_every_command() {
    for (shell, begins) in [
        ("bash", "_resurgam() {"),
        ("zsh", "#compdef resurgam"),
        ("fish", "# Print an optspec for argparse"),
        ("powershell", "\nusing namespace System.Management.Automation"),
        ("elvish", "\nuse builtin;"),
    ] {
        let made = resurgam(&["completions", shell]);
        let text = String::from_utf8(made.stdout).unwrap();
        assert_eq!(made.status.code(), Some(0));
        assert!(text.starts_with(begins), "{shell}: {}", &text[..200]);
        for command in ["run", "worker", "explain", "policy", "completions"] {
            assert!(text.contains(command), "{shell}: {command}");
        }
    }
    let unknown = resurgam(&["completions", "tcsh"]);
    assert_eq!(unknown.status.code(), Some(2));
    let text = String::from_utf8(unknown.stderr).unwrap();
    assert!(text.contains("bash, elvish, fish, powershell, zsh"), "{text}");
}

#[cfg(unix)]
#[test]
fn bash_takes_its_completions_and_completes_with_them() {
    let script = r#"
        eval "$(resurgam completions bash)" || exit 1
        COMP_WORDS=(resurgam expl) COMP_CWORD=1
        _resurgam resurgam expl resurgam
        echo "${COMPREPLY[@]}"
    "#;
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_resurgam")).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.args(["-c", script]).env("PATH", path).stdin(Stdio::null());
    let Ok(child) = bash.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn() else {
        return; // There is no bash here.
    };
    let made = processes::ended(child, "bash");
    assert_eq!(String::from_utf8(made.stdout).unwrap(), "explain\n", "{:?}", made.stderr);
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let made = resurgam(&["man", "--dir", folder.path().to_str().unwrap()]);
    assert_eq!(made.status.code(), Some(0));
    for page in ["resurgam.1", "resurgam-explain.1", "resurgam-policy-check.1"] {
        assert!(folder.path().join(page).exists(), "{page}");
    }
}
