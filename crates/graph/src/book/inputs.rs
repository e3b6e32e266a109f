//! What the inputs of a state are made of: text, the store, and what states before it returned.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Book, StateId};
use crate::reference::{Output, Piece, Text};

impl Book {
    /// The inputs of the root: those of the template, or those that were given in their place.
    pub(super) fn root_inputs(
        &self,
        given: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>, String> {
        let mut texts = self.plan.nodes[self.plan.root].inputs.clone();
        for (name, text) in given {
            texts.insert(name.clone(), Text::parse(text)?);
        }
        self.filled(self.plan.root, &texts, None)
    }

    /// The inputs of a node that follows a state. For a node that unites, that is the state of its
    /// target.
    pub(super) fn inputs(
        &self,
        node: usize,
        parent: StateId,
    ) -> Result<BTreeMap<String, String>, String> {
        self.filled(node, &self.plan.nodes[node].inputs, Some(parent))
    }

    fn filled(
        &self,
        node: usize,
        texts: &BTreeMap<String, Text>,
        parent: Option<StateId>,
    ) -> Result<BTreeMap<String, String>, String> {
        let own = &self.plan.nodes[node].identifier;
        let mut inputs = BTreeMap::new();
        let mut size = 0;
        for (name, text) in texts {
            let mut filled = String::new();
            for piece in &text.0 {
                let value = self.piece(piece, parent);
                filled
                    .push_str(&value.map_err(|what| format!("Input {name} of node {own} {what}"))?);
                if filled.len() > self.room {
                    break;
                }
            }
            size += encoded_len(name) + encoded_len(&filled) + 2;
            if size > self.room {
                return Err(format!(
                    "The inputs of node {own} are larger than the {} bytes that a call can have",
                    self.room
                ));
            }
            inputs.insert(name.clone(), filled);
        }
        Ok(inputs)
    }

    fn piece(&self, piece: &Piece, parent: Option<StateId>) -> Result<String, String> {
        match piece {
            Piece::Plain(text) => Ok(text.clone()),
            Piece::Store(key) => self
                .store
                .get(key)
                .cloned()
                .ok_or_else(|| format!("depends on {key}, which is not in the store")),
            Piece::Output(output) => self.output(output, parent),
            Piece::Collected(output) => Ok(self.collected(output, parent)),
        }
    }

    /// What the nearest state of a node above returned.
    fn output(&self, output: &Output, parent: Option<StateId>) -> Result<String, String> {
        let Output { identifier, field } = output;
        let node = self.plan.node(identifier);
        let mut above = parent;
        while let Some(id) = above {
            let state = self.state(id);
            if Some(state.node) == node {
                let value = state.outputs.as_ref().and_then(|outputs| outputs.get(field));
                let missing =
                    || format!("depends on {field} of {identifier}, which it did not return");
                return value.map(text_of).ok_or_else(missing);
            }
            above = state.parent;
        }
        Err(format!("depends on {identifier}, which did not run on this way"))
    }

    /// What all states of a node below the target returned, as a JSON list in the order of their
    /// fan-outs. States without outputs are left out, and a field that one did not return is
    /// `null`.
    fn collected(&self, output: &Output, target: Option<StateId>) -> String {
        let node = self.plan.node(&output.identifier);
        let mut values = Vec::new();
        let mut open: Vec<StateId> = Vec::new();
        if let Some(target) = target {
            open.extend(self.state(target).children.iter().rev());
        }
        // A tree as deep as its graph: with a list of what is left and not with calls, which would
        // overflow the stack.
        while let Some(id) = open.pop() {
            let state = self.state(id);
            if Some(state.node) == node {
                let value = state.outputs.as_ref().map(|outputs| outputs.get(&output.field));
                values.extend(value.map(|value| value.unwrap_or(&Value::Null)));
            }
            // First what is below it, then the others of its fan-out.
            open.extend(state.fanned.iter().rev());
            open.extend(state.children.iter().rev());
        }
        serde_json::to_string(&values).unwrap_or_default()
    }
}

/// A value in a text: texts as they are, everything else as JSON.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// How many bytes a text has as JSON.
fn encoded_len(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(escaped).sum::<usize>() + 2
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn the_length_of_a_text_is_that_of_its_json() {
        let all: String = (0..0x250).filter_map(char::from_u32).collect();
        for text in ["", "plain", "ü\"\\/\n\u{7f}", &all] {
            assert_eq!(encoded_len(text), serde_json::to_string(text).unwrap().len(), "{text:?}");
        }
    }
}
