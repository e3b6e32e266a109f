//! How many instructions the pure parts take, compared with what they took when somebody last
//! looked (`instructions.txt`).
//!
//! Instructions and not time: they are the same on a busy machine. Counted by valgrind, of the
//! profile that tests are built with; the counts of a release are smaller, and move together with
//! these. Run by hand and by CI:
//!
//! ```sh
//! cargo test --workspace --test suite -- --ignored instructions
//! ```
//!
//! A part that takes a third more fails the test. So does one that takes a third less: then the
//! file is to be written anew, with `UPDATE_COUNTS=1`, or the next slip goes unnoticed. The test
//! has a quarter of an hour: valgrind is slow, and may have to be installed first.
#![cfg(all(target_os = "linux", target_arch = "x86_64", debug_assertions))]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use resurgam_watchdog::test;

/// What is counted, and how often it is done: often enough to drown the start of the program.
const SUBJECTS: [(&str, u64); 7] = [
    ("decide", 200),
    ("decide-rules", 200),
    ("encode", 100),
    ("decode", 100),
    ("place", 1_000),
    ("policy", 20),
    ("replay", 200),
];

#[test(minutes = 15)]
#[ignore = "needs valgrind, which CI installs"]
fn no_pure_part_takes_a_third_more_instructions_than_it_did() {
    let counted: BTreeMap<&str, u64> =
        SUBJECTS.iter().map(|(name, times)| (*name, one_more(name, *times))).collect();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.txt");
    if std::env::var_os("UPDATE_COUNTS").is_some() {
        std::fs::write(&file, table(&counted)).unwrap();
    }
    let known = read(&std::fs::read_to_string(&file).unwrap());
    let changed: Vec<String> =
        counted.iter().filter_map(|(name, now)| change(name, *now, &known)).collect();
    assert!(changed.is_empty(), "{}\nAll of them:\n{}", changed.join("\n"), table(&counted));
}

fn change(name: &str, now: u64, known: &BTreeMap<String, u64>) -> Option<String> {
    let Some(before) = known.get(name).copied() else {
        return Some(format!("{name} is not in instructions.txt; write it with UPDATE_COUNTS=1"));
    };
    if now * 3 > before * 4 {
        return Some(format!("{name} takes {now} instructions, and took {before}"));
    }
    (now * 4 < before * 3).then(|| {
        format!(
            "{name} takes only {now} instructions of {before}: write that down with UPDATE_COUNTS=1"
        )
    })
}

/// What doing it once more costs.
fn one_more(name: &str, times: u64) -> u64 {
    let (once, twice) = (instructions(name, times), instructions(name, times * 2));
    twice.saturating_sub(once) / times
}

/// The instructions of a whole program.
fn instructions(name: &str, times: u64) -> u64 {
    let output = Command::new(valgrind())
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .args([env!("CARGO_BIN_EXE_resurgam-pure"), name, &times.to_string()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let line =
        said.lines().find(|line| line.contains("I   refs:")).unwrap_or_else(|| panic!("{said}"));
    let digits: String =
        line.rsplit(':').next().unwrap().chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

/// Where valgrind is, installed with apt when it must be.
fn valgrind() -> PathBuf {
    let find = || {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).map(|folder| folder.join("valgrind")).find(|it| it.is_file())
    };
    find().unwrap_or_else(|| {
        eprintln!("valgrind is missing: installing it with apt-get, once");
        let install = "apt-get -o DPkg::Lock::Timeout=300 update && \
                       apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends valgrind";
        let root = ["sh", "-c", install];
        let sudo = ["sudo", "-n", "sh", "-c", install];
        let is_root = Command::new("id").arg("-u").output().unwrap().stdout.trim_ascii() == b"0";
        let words = if is_root { &root[..] } else { &sudo[..] };
        let status = Command::new(words[0]).args(&words[1..]).env("DEBIAN_FRONTEND", "noninteractive").status();
        assert!(status.is_ok_and(|it| it.success()), "install valgrind: apt-get failed; install it by hand");
        find().expect("valgrind was just installed")
    })
}

fn table(counts: &BTreeMap<&str, u64>) -> String {
    let mut text = String::from(
        "# Instructions of one more, built for tests. See tests/suite/instructions.rs.\n",
    );
    for (name, count) in counts {
        writeln!(text, "{name:<14} {count:>9}").unwrap();
    }
    text
}

fn read(text: &str) -> BTreeMap<String, u64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let words = lines.filter_map(|line| line.split_once(' '));
    words.map(|(name, count)| (name.to_string(), count.trim().parse().unwrap())).collect()
}
