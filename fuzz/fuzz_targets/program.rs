//! Any text as a program, in both dialects: read, or refused with places, never a panic. What can
//! be printed is read as the same program again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use resurgam_ir::{Dialect, Program, format};

fuzz_target!(|text: &str| {
    for dialect in [None, Some(Dialect::Rappel), Some(Dialect::Waymark)] {
        let program = Program::read("fuzz.rap", text, dialect);
        if let Err(errors) = &program {
            assert!(errors.iter().all(|error| error.line > 0 && error.column > 0));
            let _shown = errors.to_string();
        }
        let Ok(printed) = format("fuzz.rap", text, dialect) else { continue };
        // A guess may change with the layout; that of the first reading holds.
        let known = dialect.unwrap_or_else(|| Dialect::guess(text));
        let again = format("fuzz.rap", &printed, Some(known)).expect("what we print we read");
        assert_eq!(again, printed, "printing is stable");
        if let Ok(program) = program {
            let again = Program::read("fuzz.rap", &printed, Some(known)).expect("checks hold");
            assert_eq!(again, program, "the same tree");
        }
    }
});
