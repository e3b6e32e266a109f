//! Functions that call themselves, and chains of calls that are too long.
//!
//! The walk keeps its own stack: a program may have ten thousand functions, each calling the next.

use std::collections::HashMap;

use super::Check;
use crate::ast::{CallRef, Function, Tree};
use crate::errors::{Code, Problem, Span};

/// How many functions may call each other in a row. Every call that runs beside others is polled
/// inside of its caller, and the stack has an end.
const LONGEST_CHAIN: usize = 50;

/// The functions that a function calls, each with the place of the first call.
type Calls<'a> = Vec<(&'a str, Span)>;

enum State {
    /// On the way that is being walked.
    Open,
    /// Done, with the length of the longest chain from here.
    Done(usize),
}

struct Visit<'a> {
    name: &'a str,
    calls: Calls<'a>,
    next: usize,
    longest: usize,
}

impl<'a> Check<'a> {
    pub(super) fn recursion(&mut self, tree: &'a Tree) {
        let mut states: HashMap<&str, State> = HashMap::new();
        for function in &tree.functions {
            if !states.contains_key(function.name.text.as_str()) {
                self.walk(&mut states, function);
            }
        }
    }

    fn walk(&mut self, states: &mut HashMap<&'a str, State>, function: &'a Function) {
        let mut way = vec![self.visit(function)];
        states.insert(&function.name.text, State::Open);
        while let Some(top) = way.last_mut() {
            let Some((called, span)) = top.calls.get(top.next).copied() else {
                let done = way.pop().map(|visit| (visit.name, visit.longest + 1));
                let Some((name, length)) = done else { return };
                states.insert(name, State::Done(length));
                if let Some(caller) = way.last_mut() {
                    caller.longest = caller.longest.max(length);
                }
                self.too_long(name, length);
                continue;
            };
            top.next += 1;
            match states.get(called) {
                Some(State::Open) => self.recursive(&way, called, span),
                Some(State::Done(length)) => top.longest = top.longest.max(*length),
                None => {
                    let Some(function) = self.functions.get(called).copied() else { continue };
                    way.push(self.visit(function));
                    states.insert(called, State::Open);
                }
            }
        }
    }

    fn visit(&self, function: &'a Function) -> Visit<'a> {
        let mut calls: Calls<'a> = Vec::new();
        let mut known = std::collections::HashSet::new();
        function.visit_calls(&mut |call| {
            if let CallRef::Function(call) = call
                && self.functions.contains_key(call.name.text.as_str())
                && known.insert(call.name.text.as_str())
            {
                calls.push((&call.name.text, call.name.span));
            }
        });
        Visit { name: &function.name.text, calls, next: 0, longest: 0 }
    }

    fn recursive(&mut self, way: &[Visit<'a>], called: &str, span: Span) {
        let from = way.iter().position(|visit| visit.name == called).unwrap_or(0);
        let names = way[from..].iter().map(|visit| visit.name).chain(Some(called));
        let circle = names.collect::<Vec<_>>().join(" -> ");
        let problem = Problem::new(Code::I4, span, format!("recursive function call: {circle}"));
        self.report(problem.hint("functions cannot call themselves; use a loop"));
    }

    /// Reported once, at the function where the chain becomes too long.
    fn too_long(&mut self, name: &str, length: usize) {
        if length == LONGEST_CHAIN + 1
            && let Some(function) = self.functions.get(name).copied()
        {
            let message = format!(
                "function '{name}' begins a chain of calls through {length} functions; \
                 {LONGEST_CHAIN} is the most"
            );
            self.report(Problem::new(Code::I4, function.name.span, message));
        }
    }
}
