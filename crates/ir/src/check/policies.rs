//! Policies that cannot be honoured.

use super::{Check, SLEEP};
use crate::ast::{Action, CallRef, Function};
use crate::errors::{Code, Problem};
use crate::policy::{call_options, gate, idle_bracket};

impl Check<'_> {
    pub(super) fn policies(&mut self, function: &Function) {
        let mut found = Vec::new();
        function.visit_calls(&mut |call| {
            if let CallRef::Action(action) = call {
                found.extend(problem(action, self.dialect));
            }
        });
        self.problems.extend(found);
    }
}

fn problem(action: &Action, dialect: crate::Dialect) -> Option<Problem> {
    let first = action.policies.first()?;
    let whole = action.policies.iter().fold(first.span, |all, policy| all.to(policy.span));
    if action.name.text == SLEEP {
        let problem = Problem::new(Code::I5, whole, "a policy of @sleep changes nothing");
        return Some(problem.hint("waiting cannot fail; leave the bracket out"));
    }
    let Err(what) = call_options(action, dialect).and_then(|_| gate(action).map(drop)) else {
        let idle = action.policies.get(idle_bracket(action, dialect)?)?;
        let problem = Problem::new(Code::I5, idle.span, "this bracket changes nothing");
        return Some(problem.hint("the others say as much; leave it out"));
    };
    let (message, hint) = match what.split_once("; ") {
        Some((message, hint)) => (message.to_string(), Some(hint.to_string())),
        None => (what, None),
    };
    Some(Problem::new(Code::I5, whole, message).maybe_hint(hint))
}
