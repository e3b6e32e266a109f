//! Calls of functions that are not there, or with other arguments than they take.

use std::collections::HashSet;

use super::{BUILTINS, Check, DURATION, SLEEP, did_you_mean, near};
use crate::ast::{Action, CallRef, Function, FunctionCall, Name};
use crate::errors::{Code, Problem};

impl<'a> Check<'a> {
    pub(super) fn calls(&mut self, function: &'a Function) {
        let mut calls = Vec::new();
        function.visit_calls(&mut |call| calls.push(call));
        for call in calls {
            match call {
                CallRef::Function(call) => self.function_call(function, call),
                CallRef::Action(action) => self.action(action),
            }
        }
    }

    fn function_call(&mut self, caller: &Function, call: &FunctionCall) {
        let name = call.name.text.as_str();
        if let Some(called) = self.functions.get(name).copied() {
            if !called.broken {
                self.arguments(called, call);
            }
        } else if let Some((_, least, most)) = BUILTINS.iter().find(|(known, ..)| *known == name) {
            self.builtin(call, *least, *most);
        } else {
            let message =
                format!("function '{name}' is not defined in workflow '{}'", caller.name.text);
            let known = self.functions.keys().copied();
            let known = BUILTINS.iter().map(|(known, ..)| *known).chain(known);
            let near = near(name, known, self.problems.len());
            let hint =
                did_you_mean(near).or_else(|| Some(format!("an action is called as @{name}")));
            self.report(Problem::new(Code::I4, call.name.span, message).maybe_hint(hint));
        }
    }

    fn builtin(&mut self, call: &FunctionCall, least: usize, most: usize) {
        let (name, given) = (&call.name.text, call.arguments.len());
        if let Some(named) = call.arguments.iter().find_map(|argument| argument.name.as_ref()) {
            self.report(Problem::new(
                Code::I4,
                named.span,
                format!("'{name}' takes no named arguments"),
            ));
        } else if !(least..=most).contains(&given) {
            let wanted = match (least, most) {
                (1, 1) => "one argument".to_string(),
                (least, most) => format!("{least} to {most} arguments"),
            };
            let message = format!("'{name}' takes {wanted}, not {given}");
            self.report(Problem::new(Code::I4, call.span, message));
        }
    }

    /// Every input gets one argument, by its place or by its name.
    fn arguments(&mut self, called: &Function, call: &FunctionCall) {
        let name = &called.name.text;
        let inputs: Vec<&str> = called.inputs.iter().map(|input| input.text.as_str()).collect();
        let mut given: HashSet<&str> = HashSet::new();
        let mut by_name = false;
        for (place, argument) in call.arguments.iter().enumerate() {
            let span = argument.name.as_ref().map_or(argument.value.span, |name| name.span);
            let input = match &argument.name {
                Some(named) => {
                    by_name = true;
                    inputs.iter().copied().find(|input| *input == named.text)
                }
                None if by_name => {
                    let message = "an argument without a name stands behind one with a name";
                    self.report(Problem::new(Code::I4, span, message));
                    continue;
                }
                None => inputs.get(place).copied(),
            };
            match (input, &argument.name) {
                (Some(input), _) if given.insert(input) => {}
                (Some(input), _) => {
                    let message = format!("argument '{input}' of function '{name}' is given twice");
                    self.report(Problem::new(Code::I4, span, message));
                }
                (None, Some(unknown)) => {
                    let message = format!("function '{name}' has no input '{}'", unknown.text);
                    let near = near(&unknown.text, inputs.iter().copied(), self.problems.len());
                    self.report(
                        Problem::new(Code::I4, span, message).maybe_hint(did_you_mean(near)),
                    );
                }
                (None, None) => {
                    let message = format!(
                        "function '{name}' takes {} arguments, not {}",
                        inputs.len(),
                        call.arguments.len()
                    );
                    self.report(Problem::new(Code::I4, span, message));
                    return;
                }
            }
        }
        let missing: Vec<&str> =
            inputs.into_iter().filter(|input| !given.contains(input)).collect();
        if !missing.is_empty() {
            let plural = if missing.len() > 1 { "arguments" } else { "argument" };
            let missing = missing.join("', '");
            let message = format!("missing {plural} '{missing}' of function '{name}'");
            self.report(Problem::new(Code::I4, call.span, message));
        }
    }

    fn action(&mut self, action: &Action) {
        let mut known = HashSet::new();
        for (name, _) in &action.arguments {
            if !known.insert(name.text.as_str()) {
                let message =
                    format!("argument '{}' of @{} is given twice", name.text, action.name.text);
                self.report(Problem::new(Code::I4, name.span, message));
            }
        }
        if action.name.text == SLEEP {
            self.sleep(action);
        }
    }

    /// The built-in action takes a duration and nothing else.
    fn sleep(&mut self, action: &Action) {
        let names = action.arguments.iter().map(|(name, _)| name);
        let unknown: Vec<&Name> = names.filter(|name| name.text != DURATION).collect();
        for name in &unknown {
            let message = format!("@sleep has no argument '{}'", name.text);
            self.report(
                Problem::new(Code::I4, name.span, message).hint("write @sleep(duration=5)"),
            );
        }
        if action.arguments.is_empty() {
            let problem =
                Problem::new(Code::I4, action.span, "missing argument 'duration' of @sleep");
            self.report(problem.hint("write @sleep(duration=5)"));
        }
    }
}
