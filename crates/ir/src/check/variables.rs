//! Variables that no way to their use assigns.
//!
//! Walks a function in the order of its text with the names that may be assigned by now. What a
//! loop assigns later in its body may be there in its second round; so it counts where the use
//! itself depends on a condition, and not where the first round comes by for certain.

use std::collections::HashSet;

use super::{BUILTINS, Check, near};
use crate::ast::{
    Block, CallRef, Expr, ExprKind, Function, Handler, Source, Statement, StatementKind,
};
use crate::errors::{Code, Problem, Span};

/// What may be assigned at a place. Inner places add to what is known around them, and do not copy
/// it: a long program has as many of them as lines.
#[derive(Default)]
struct Known<'a, 'k> {
    names: HashSet<&'a str>,
    /// What the loops around this place assign in earlier rounds.
    earlier: HashSet<&'a str>,
    around: Option<&'k Known<'a, 'k>>,
    /// The first round of a loop need not come by here: what earlier ones assign is known.
    depends: bool,
}

impl<'a> Known<'a, '_> {
    /// What is known at a place that the first round of a loop need not come by.
    fn depending(&self) -> Known<'a, '_> {
        Known { depends: true, ..self.inside() }
    }

    /// What is known here, for adding what is known only further in.
    fn inside(&self) -> Known<'a, '_> {
        Known { around: Some(self), ..Known::default() }
    }

    fn has(&self, name: &str) -> bool {
        let around =
            |around: &Known<'a, '_>| around.has(name) || (self.depends && around.has_earlier(name));
        self.names.contains(name) || self.around.is_some_and(around)
    }

    fn has_earlier(&self, name: &str) -> bool {
        let around = self.around.filter(|_| !self.depends);
        self.earlier.contains(name) || around.is_some_and(|around| around.has_earlier(name))
    }
}

/// The walk through one function.
struct Walk<'a, 'b> {
    function: &'a Function,
    /// Every name that it assigns anywhere, for hints.
    all: Vec<&'a str>,
    problems: &'b mut Vec<Problem>,
    functions: &'b dyn Fn(&str) -> bool,
    reported: HashSet<&'a str>,
}

impl<'a> Check<'a> {
    pub(super) fn variables(&mut self, function: &'a Function) {
        if function.broken {
            return;
        }
        let mut known = Known::default();
        known.names.extend(function.inputs.iter().map(|input| input.text.as_str()));
        let mut all: Vec<&str> = known.names.iter().copied().chain(bound(&function.body)).collect();
        all.sort_unstable();
        let is_function =
            |name: &str| self.functions.contains_key(name) || BUILTINS.iter().any(|b| b.0 == name);
        let reported = HashSet::new();
        let problems = &mut self.problems;
        let mut walk = Walk { function, all, problems, functions: &is_function, reported };
        walk.block(&function.body, &mut known);
    }
}

impl<'a> Walk<'a, '_> {
    /// Answers whether the end of the block is reached.
    fn block(&mut self, block: &'a Block, known: &mut Known<'a, '_>) -> bool {
        let mut goes_on = true;
        for statement in &block.statements {
            goes_on &= self.statement(statement, known);
        }
        goes_on
    }

    fn statement(&mut self, statement: &'a Statement, known: &mut Known<'a, '_>) -> bool {
        match &statement.kind {
            StatementKind::Assign { value, .. } => self.source(value, known),
            StatementKind::Evaluate(value) => self.source(value, known),
            StatementKind::Return(value) | StatementKind::Sleep(value) => {
                value.iter().for_each(|value| self.expr(value, known));
            }
            StatementKind::For { items, body, .. } => {
                self.expr(items, known);
                self.round(statement, body, known);
            }
            StatementKind::While { condition, body } => {
                self.expr(condition, known);
                self.round(statement, body, known);
            }
            StatementKind::If { .. } => return self.branches(statement, known),
            StatementKind::Try { body, handlers } => return self.attempt(body, handlers, known),
            StatementKind::Break
            | StatementKind::Continue
            | StatementKind::Pass
            | StatementKind::Broken(_) => {}
        }
        known.names.extend(statement.binds().into_iter().map(|name| name.text.as_str()));
        !matches!(
            statement.kind,
            StatementKind::Return(_) | StatementKind::Break | StatementKind::Continue
        )
    }

    /// The body of a loop.
    fn round(&mut self, statement: &'a Statement, body: &'a Block, known: &mut Known<'a, '_>) {
        let mut inside = known.depending();
        inside.names.extend(statement.binds().into_iter().map(|name| name.text.as_str()));
        inside.earlier.extend(bound(body));
        self.block(body, &mut inside);
        known.names.extend(bound(body));
    }

    fn branches(&mut self, statement: &'a Statement, known: &mut Known<'a, '_>) -> bool {
        let StatementKind::If { branches, otherwise } = &statement.kind else { return true };
        let mut after: Vec<&str> = Vec::new();
        let mut goes_on = otherwise.is_none();
        for (place, branch) in branches.iter().enumerate() {
            match place {
                0 => self.expr(&branch.condition, known),
                _ => self.expr(&branch.condition, &known.depending()),
            }
        }
        for body in statement.blocks() {
            if self.block(body, &mut known.depending()) {
                goes_on = true;
                after.extend(bound(body));
            }
        }
        known.names.extend(after);
        goes_on
    }

    fn attempt(
        &mut self,
        body: &'a Block,
        handlers: &'a [Handler],
        known: &mut Known<'a, '_>,
    ) -> bool {
        let mut goes_on = self.block(body, &mut known.inside());
        let mut after = bound(body);
        for handler in handlers {
            let mut inside = known.depending();
            inside.names.extend(bound(body));
            inside.names.extend(handler.name.iter().map(|name| name.text.as_str()));
            goes_on |= self.block(&handler.body, &mut inside);
            after.extend(bound(&handler.body));
            after.extend(handler.name.iter().map(|name| name.text.as_str()));
        }
        known.names.extend(after);
        goes_on
    }

    fn source(&mut self, source: &'a Source, known: &Known<'a, '_>) {
        match source {
            Source::Expr(expr) => self.expr(expr, known),
            Source::Parallel(calls) => {
                for part in calls.iter().flat_map(|call| call.as_ref().arguments()) {
                    self.expr(part, known);
                }
            }
            Source::Spread(spread) => {
                self.expr(&spread.items, known);
                let mut inside = known.depending();
                inside.names.insert(&spread.item.text);
                for value in CallRef::Action(&spread.action).arguments() {
                    self.expr(value, &inside);
                }
            }
        }
    }

    fn expr(&mut self, expr: &'a Expr, known: &Known<'a, '_>) {
        match &expr.kind {
            ExprKind::Name(name) => self.name(name, expr.span, known),
            ExprKind::And(terms) | ExprKind::Or(terms) => {
                self.expr(&terms[0], known);
                let later = known.depending();
                terms[1..].iter().for_each(|term| self.expr(term, &later));
            }
            _ => expr.parts().into_iter().for_each(|part| self.expr(part, known)),
        }
    }

    fn name(&mut self, name: &'a str, span: Span, known: &Known<'a, '_>) {
        if known.has(name) || !self.reported.insert(name) {
            return;
        }
        let function = &self.function.name.text;
        let message =
            format!("variable '{name}' referenced before assignment in function '{function}'");
        let word = match name {
            "true" => Some("True"),
            "false" => Some("False"),
            "null" | "nil" | "none" => Some("None"),
            _ => {
                let others = self.all.iter().copied().filter(|known| *known != name);
                near(name, others, self.problems.len())
            }
        };
        let hint = match word {
            Some(word) => Some(format!("did you mean `{word}`?")),
            None if (self.functions)(name) => Some(format!("call it: `{name}(..)`")),
            None => None,
        };
        self.problems.push(Problem::new(Code::I3, span, message).maybe_hint(hint));
    }
}

/// The names that a block assigns somewhere.
fn bound(block: &Block) -> Vec<&str> {
    let mut names = Vec::new();
    block.visit(&mut |statement| {
        names.extend(statement.binds().into_iter().map(|name| name.text.as_str()));
    });
    names
}
