//! From the brackets of an action to what its call asks for.

use resurgam_core::command::CallOptions;
use resurgam_core::config::nearest;
use resurgam_core::gate::KeyTemplate;
use resurgam_core::retry::dialect::{Bracket, CatchAll, Fallback, bracket_policy};

use crate::Dialect;
use crate::ast::Action;
use crate::check::SLEEP;
use crate::hierarchy::{EXCEPTION, descendants};

/// What the call of an action asks for. Without a retry bracket it is tried once, whatever the
/// default policy says. The error says what cannot be honoured.
pub(crate) fn call_options(action: &Action, dialect: Dialect) -> Result<CallOptions, String> {
    let covers = match dialect {
        Dialect::Rappel => CatchAll::Everything,
        Dialect::Waymark => CatchAll::AllButTimeouts,
    };
    let brackets: Vec<Bracket> =
        action.policies.iter().map(|policy| with_hierarchy(&policy.bracket)).collect();
    let sleeps = Bracket::Fallback(Fallback::ByActivity(SLEEP.to_string()));
    if brackets.contains(&sleeps) {
        return Err("fallback: @sleep is part of the language, and no action".to_string());
    }
    let policy = bracket_policy(&brackets, covers).map_err(|problem| problem.to_string())?;
    // In the words that stand in the brackets.
    let words = |problem: String| problem.replace("timeouts.attempt", "timeout");
    policy.check().map_err(|problems| words(problems.to_string()))?;
    let timeout = policy.timeouts.attempt;
    Ok(CallOptions { retry: Some(Box::new(policy)), timeout, ..CallOptions::default() })
}

/// What makes the key of the gate that the call of an action is behind. The error says what cannot
/// be honoured.
pub(crate) fn gate(action: &Action) -> Result<Option<&KeyTemplate>, String> {
    let mut gates = action.policies.iter().filter_map(|policy| match &policy.bracket {
        Bracket::Gate(template) => Some(template),
        _ => None,
    });
    let gate = gates.next();
    if gates.next().is_some() {
        return Err("gate: a call is behind one; leave the other bracket out".to_string());
    }
    let names: Vec<&str> = action.arguments.iter().map(|(name, _)| &*name.text).collect();
    let mut wanted = gate.into_iter().flat_map(KeyTemplate::arguments);
    match wanted.find(|name| !names.contains(name)) {
        None => Ok(gate),
        Some(name) => {
            let near = nearest(name, names.into_iter());
            let advice = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            Err(format!("gate: the call has no argument `{name}`{advice}"))
        }
    }
}

/// The place of a retry bracket that changes nothing, because others say as much. One that says
/// `retry: 0` is there for its readers.
pub(crate) fn idle_bracket(action: &Action, dialect: Dialect) -> Option<usize> {
    let whole = call_options(action, dialect).ok()?.retry;
    (0..action.policies.len()).rev().find(|place| {
        let mut rest = action.clone();
        let removed = rest.policies.remove(*place);
        let retries = matches!(
            removed.bracket,
            Bracket::Retry { retries: 1.., .. } | Bracket::TimeoutRetry { retries: 1.., .. }
        );
        retries && call_options(&rest, dialect).is_ok_and(|options| options.retry == whole)
    })
}

/// A failure need not say what it descends from. So a bracket for one of Python's types also names
/// those below it, and one for `Exception` is one for everything.
fn with_hierarchy(bracket: &Bracket) -> Bracket {
    let Bracket::Retry { types, retries, wait } = bracket else { return bracket.clone() };
    let mut named: Vec<String> = Vec::new();
    for name in types {
        if name == EXCEPTION {
            return Bracket::Retry { types: Vec::new(), retries: *retries, wait: *wait };
        }
        let below = descendants(name).into_iter().map(str::to_string);
        for name in std::iter::once(name.clone()).chain(below) {
            if !named.contains(&name) {
                named.push(name);
            }
        }
    }
    Bracket::Retry { types: named, retries: *retries, wait: *wait }
}
