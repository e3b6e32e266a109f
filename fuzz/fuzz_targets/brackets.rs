//! Any text as brackets of Rappel's IR and as a duration: an answer or a problem, never a panic.
//! What is accepted can be written again and then means the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use resurgam_core::duration::{self, Text};
use resurgam_core::retry::dialect::{Dialect, parse_brackets};
use serde_json::json;

fuzz_target!(|text: &str| {
    if let Ok(time) = duration::parse(text) {
        assert_eq!(duration::parse(&Text(time).to_string()), Ok(time));
    }
    if let Err(problem) = parse_brackets(text) {
        assert!(problem.message.contains("(column "), "{}", problem.message);
        return;
    }
    // Brackets that can be read may still contradict each other.
    let Ok(imported) = Dialect::RappelIr.import(&json!({ "brackets": text })) else { return };
    let exported = Dialect::RappelIr.export(&imported.policy);
    let again = Dialect::RappelIr.import(&exported.config).expect("what we write we read");
    let rewritten = Dialect::RappelIr.export(&again.policy);
    assert_eq!(rewritten.config, exported.config, "writing is stable");
});
