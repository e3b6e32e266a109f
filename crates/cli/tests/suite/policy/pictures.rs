//! The pictures of the guides are what the program draws: `docs/pictures/X.svg` of the policy in
//! `X.json`. `UPDATE_EXPECT=1` draws them anew.

use std::fs;
use std::path::{Path, PathBuf};

use expect_test::expect_file;
use resurgam_watchdog::test;

use crate::policy::run::run;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures")
}

/// The policies that are drawn, in the order of their names.
fn policies() -> Vec<PathBuf> {
    let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut policies: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|ending| ending == "json")).collect();
    policies.sort();
    assert!(policies.len() > 2, "only {} policies found", policies.len());
    policies
}

fn drawing(policy: &Path) -> String {
    let ran = run(&format!("explain {} --svg", policy.display()));
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", policy.display());
    ran.stdout
}

/// Pictures that another command draws, and those of measurements, which are kept as they are.
fn others() -> Vec<(&'static str, Option<String>)> {
    let at = |name: &str| folder().join(name).display().to_string();
    let (policy, gate) = (at("payment.json"), at("gates/bank.json"));
    let world = "--rate 80 --capacity 120 --outage 2m --svg";
    let ran = run(&format!("simulate {policy} --gate {gate} {world}"));
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    vec![("drill", None), ("outage", Some(ran.stdout))]
}

#[test]
fn the_picture_of_an_outage_is_what_the_simulation_draws() {
    for (name, drawn) in others() {
        if let Some(drawn) = drawn {
            expect_file![folder().join(format!("{name}.svg"))].assert_eq(&drawn);
        }
    }
}

#[test]
fn the_pictures_of_the_guides_show_their_policies() {
    for policy in policies() {
        expect_file![policy.with_extension("svg")].assert_eq(&drawing(&policy));
    }
}

/// The documentation of the crate has no folder of pictures, so there they are in the page itself:
/// this file tells it what the labels of the pictures stand for.
#[test]
fn the_pictures_in_the_documentation_are_those_of_the_guides() {
    let mut labels = String::new();
    for policy in policies() {
        let name = policy.file_stem().unwrap().to_string_lossy();
        let data = percent_encoded(&drawing(&policy));
        labels += &format!("[pictures/{name}.svg]: data:image/svg+xml,{data}\n");
    }
    for (name, drawn) in others() {
        let kept = || fs::read_to_string(folder().join(format!("{name}.svg"))).unwrap();
        let data = percent_encoded(&drawn.unwrap_or_else(kept));
        labels += &format!("[pictures/{name}.svg]: data:image/svg+xml,{data}\n");
    }
    expect_file![folder().join("inline.md")].assert_eq(&labels);
}

/// Text as a part of a URL, without anything that has a meaning in Markdown.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'/' | b':' | b'=' | b',' => {
                encoded.push(char::from(byte));
            }
            _ => encoded += &format!("%{byte:02X}"),
        }
    }
    encoded
}
