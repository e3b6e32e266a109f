//! Names that are given twice.

use std::collections::HashSet;

use super::Check;
use crate::ast::{Name, Tree};
use crate::errors::{Code, Problem};

impl<'a> Check<'a> {
    /// Knows the functions by name, and reports what has a name that is taken.
    pub(super) fn names(&mut self, tree: &'a Tree) {
        for function in &tree.functions {
            let name = &function.name.text;
            // The first one counts: calls are checked against it.
            let first = *self.functions.entry(name).or_insert(function);
            if !std::ptr::eq(first, function) && !name.is_empty() {
                let problem = Problem::new(
                    Code::I3,
                    function.name.span,
                    format!("function '{name}' is defined twice"),
                );
                self.report(problem.hint("give one of them another name"));
            }
            self.twice(&function.inputs, "input");
            self.twice(&function.outputs, "output");
        }
    }

    fn twice(&mut self, names: &[Name], what: &str) {
        let mut known = HashSet::new();
        for name in names {
            if !known.insert(&name.text) {
                let message = format!("{what} '{}' is named twice", name.text);
                self.report(Problem::new(Code::I3, name.span, message));
            }
        }
    }
}
