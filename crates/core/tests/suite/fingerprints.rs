//! Which failures are one problem: the vectors, and what holds for every message.

use proptest::prelude::*;
use resurgam_core::{Failure, Fingerprint};
use resurgam_watchdog::test;
use serde::Deserialize;

const VECTORS: &str = include_str!("../vectors/fingerprint_vectors.json");

#[derive(Deserialize)]
struct File {
    cases: Vec<Case>,
}

/// A failure, and its fingerprint. A message that would be too long to write down is repeated.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    activity: String,
    #[serde(rename = "type")]
    type_name: Option<String>,
    code: Option<String>,
    message: String,
    #[serde(default = "once")]
    repeat: usize,
    key: String,
    error: String,
}

fn once() -> usize {
    1
}

impl Case {
    fn fingerprint(&self) -> Fingerprint {
        let mut failure = Failure::new(self.message.repeat(self.repeat));
        failure.type_name.clone_from(&self.type_name);
        failure.code.clone_from(&self.code);
        Fingerprint::of(&self.activity, Some(&failure))
    }
}

#[test]
fn every_vector_has_its_fingerprint() {
    let file: File = serde_json::from_str(VECTORS).unwrap();
    assert!(file.cases.len() >= 30, "{} cases", file.cases.len());
    for case in &file.cases {
        let Fingerprint { key, error } = case.fingerprint();
        assert_eq!((&*key, &*error), (&*case.key, &*case.error), "{}", case.name);
    }
}

#[test]
fn a_call_that_has_not_failed_has_a_fingerprint_of_its_own() {
    let none = Fingerprint::of("charge", None);
    assert_eq!(none.error, "it has not failed");
    assert_ne!(none, Fingerprint::of("refund", None));
    assert_ne!(none.key, Fingerprint::of("charge", Some(&Failure::new(""))).key);
}

#[test]
fn parts_do_not_run_into_each_other() {
    let of = |activity, kind, text| Fingerprint::of(activity, Some(&Failure::of_type(kind, text)));
    assert_ne!(of("charge", "A", "b").key, of("charg", "eA", "b").key);
    assert_ne!(of("charge", "A", "b").key, of("charge", "Ab", "").key);
    let coded = |code| Fingerprint::of("a", Some(&Failure::new("x").with_code(code)));
    assert_ne!(coded("500").key, coded("503").key);
}

proptest! {
    #[test]
    fn numbers_never_tell_two_failures_apart(one in any::<u64>(), other in any::<u64>()) {
        let of = |n| {
            Fingerprint::of("a", Some(&Failure::new(format!("row {n} of order-{n} took {n}.5ms"))))
        };
        prop_assert_eq!(of(one), of(other));
    }

    #[test]
    fn any_message_has_a_short_fingerprint_on_one_line(message in ".{0,300}", times in 1_usize..40) {
        let failure = Failure::of_type("T", message.repeat(times));
        let found = Fingerprint::of("a", Some(&failure));
        prop_assert_eq!(found.key.len(), 14);
        prop_assert!(found.key[2..].bytes().all(|byte| byte.is_ascii_hexdigit()));
        prop_assert!(found.error.chars().count() <= 200);
        prop_assert!(!found.error.contains(char::is_control));
        prop_assert_eq!(&found, &Fingerprint::of("a", Some(&failure)));
    }

    #[test]
    fn quoted_text_never_tells_two_failures_apart(one in "[a-z ]{0,20}", other in "[a-z ]{0,20}") {
        let of = |text| Fingerprint::of("a", Some(&Failure::new(format!("no file \"{text}\""))));
        prop_assert_eq!(of(one), of(other));
    }
}
