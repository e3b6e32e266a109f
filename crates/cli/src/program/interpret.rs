//! The one workflow that runs everything that files say.
//!
//! An instance carries its program or its graph in its argument, so a worker needs no file and the
//! name of the workflow is for people.

use resurgam_core::Payload;
use resurgam_sdk::WorkflowDefinition;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// What an instance runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Program,
    Graph,
}

impl Kind {
    /// What the argument of an instance holds.
    pub(crate) fn of(argument: &Payload) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Shape {
            program: Option<IgnoredAny>,
            graph: Option<IgnoredAny>,
        }
        match argument.decode() {
            Ok(Shape { program: Some(_), .. }) => Ok(Kind::Program),
            Ok(Shape { graph: Some(_), .. }) => Ok(Kind::Graph),
            _ => {
                Err("its argument holds neither a program nor a graph; it was not started from a \
                      file"
                    .to_string())
            }
        }
    }
}

/// Runs instances of any name.
pub(crate) fn any_workflow() -> WorkflowDefinition {
    let program = resurgam_ir::workflow("program");
    let graph = resurgam_graph::definition("graph");
    WorkflowDefinition::new("any", move |machine, argument| match Kind::of(argument)? {
        Kind::Program => program.begin(machine, argument),
        Kind::Graph => graph.begin(machine, argument),
    })
    .reading(|argument| Kind::of(argument).is_ok())
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn what_an_instance_runs_is_in_its_argument() {
        let kind = |text: &str| Kind::of(&Payload::from_text(text));
        assert_eq!(kind(r#"{"program": "fn main...", "inputs": {}}"#), Ok(Kind::Program));
        assert_eq!(kind(r#"{"v": 1, "graph": {}}"#), Ok(Kind::Graph));
        assert!(kind(r#"{"order": 1}"#).is_err() && kind("7").is_err());
    }
}
