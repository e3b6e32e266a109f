//! Any text as a graph template: accepted or refused with reasons, never a panic. What is accepted
//! can be started, stored, read back and begun.

#![no_main]

use libfuzzer_sys::fuzz_target;
use resurgam_core::machine::SharedMachine;
use resurgam_core::{Payload, RunKey, Uid};
use resurgam_graph::{GraphRun, SecretsKey, Start, Template, definition};
use serde_json::Value;

fuzz_target!(|text: &str| {
    let template = match Template::parse(text) {
        Ok(template) => template,
        Err(problems) => {
            problems.iter().for_each(|problem| assert!(!problem.message.trim().is_empty()));
            return;
        }
    };
    let key = SecretsKey::from_text("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    let mut start = Start { key: key.ok(), ..Start::default() };
    for required in &template.graph().store_config.required_keys {
        start.store.insert(required.clone(), Value::from("value"));
    }
    let run = template.start(&start).expect("everything that is required is there").run;
    let stored = Payload::encode(&run).expect("texts and numbers have a JSON form");
    assert_eq!(GraphRun::from_payload(&stored).as_ref(), Ok(&run));
    let machine = SharedMachine::new(RunKey { uid: Uid(1), run: 1 });
    assert!(definition("graph").begin(machine, &stored).is_ok());
});
