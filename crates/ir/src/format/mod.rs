//! Programs in one layout.
//!
//! Four columns for each block, one blank line between functions, lines of up to a hundred columns
//! where something can be broken. Comments stay where they are; one inside of a statement moves in
//! front of it. Printing and reading gives the same tree again.

mod comments;
mod expression;

use crate::ast::{
    Block, Branch, Call, Function, Handler, Name, Source, Spread, Statement, StatementKind, Tree,
};
use crate::errors::{Lines, Span};
use crate::lexer::Comment;
use expression::{Layout, action, expr, function_call, leftmost};

/// How wide a block is indented.
const INDENT: usize = 4;

/// How long a line may be before it is broken.
const WIDTH: usize = 100;

/// Statements that a variable of the same name must not be taken for.
const CONTEXTUAL: [&str; 4] = ["pass", "sleep", "spread", "parallel"];

pub(crate) fn print(text: &str, tree: &Tree, comments: &[Comment]) -> String {
    let lines = Lines::of(text);
    let mut printer = Printer { text, lines, comments, next: 0, out: String::new(), first: true };
    for (place, function) in tree.functions.iter().enumerate() {
        let limit = tree.functions.get(place + 1).map_or(text.len(), |next| start(next.header));
        printer.function(function, limit);
    }
    printer.flush(text.len(), 0, 0);
    printer.out
}

fn start(span: Span) -> usize {
    span.start as usize
}

struct Printer<'a> {
    text: &'a str,
    lines: Lines,
    comments: &'a [Comment],
    /// The next comment that was not printed.
    next: usize,
    out: String,
    /// True at the beginning of a block, where no blank line belongs.
    first: bool,
}

impl Printer<'_> {
    fn function(&mut self, function: &Function, limit: usize) {
        if !self.out.is_empty() {
            self.out.push('\n');
            self.first = true;
        }
        let names = |names: &[Name]| {
            names.iter().map(|name| name.text.as_str()).collect::<Vec<_>>().join(", ")
        };
        let Function { name, inputs, outputs, .. } = function;
        let header =
            format!("fn {}(input: [{}], output: [{}]):", name.text, names(inputs), names(outputs));
        self.line(function.header, 0, header);
        self.block(&function.body, 1, limit);
    }

    /// A block, and the comments behind it that belong to it.
    fn block(&mut self, block: &Block, depth: usize, limit: usize) {
        self.first = true;
        for (place, statement) in block.statements.iter().enumerate() {
            let limit = block.statements.get(place + 1).map_or(limit, |next| start(next.span));
            self.statement(statement, depth, limit);
        }
        let column = block.statements.first().map_or(0, |first| self.column(start(first.span)));
        self.flush(limit, column, depth);
    }

    fn statement(&mut self, statement: &Statement, depth: usize, limit: usize) {
        match &statement.kind {
            StatementKind::For { targets, items, body } => {
                let layout = Layout::Flat;
                let header = format!("for {} in {}:", list(targets), expr(items, layout));
                self.line(statement.span, depth, header);
                self.block(body, depth + 1, limit);
            }
            StatementKind::While { condition, body } => {
                let header = format!("while {}:", expr(condition, Layout::Flat));
                self.line(statement.span, depth, header);
                self.block(body, depth + 1, limit);
            }
            StatementKind::If { branches, otherwise } => {
                let last = otherwise.as_ref().map_or(limit, |otherwise| start(otherwise.header));
                self.branches(branches, depth, last);
                if let Some(otherwise) = otherwise {
                    self.line(otherwise.header, depth, "else:".to_string());
                    self.block(&otherwise.body, depth + 1, limit);
                }
            }
            StatementKind::Try { body, handlers } => {
                self.line(statement.span, depth, "try:".to_string());
                let next = handlers.first().map_or(limit, |handler| start(handler.header));
                self.block(body, depth + 1, next);
                self.handlers(handlers, depth, limit);
            }
            StatementKind::Assign { targets, value: Source::Parallel(calls) } => {
                let header = format!("{} = parallel:", list(targets));
                self.line(statement.span, depth, header);
                self.calls(calls, depth + 1, limit);
            }
            StatementKind::Evaluate(Source::Parallel(calls)) => {
                self.line(statement.span, depth, "parallel:".to_string());
                self.calls(calls, depth + 1, limit);
            }
            kind => {
                let line = fitting(depth, |layout| simple(kind, layout));
                self.line(statement.span, depth, line);
            }
        }
    }

    fn branches(&mut self, branches: &[Branch], depth: usize, limit: usize) {
        for (place, branch) in branches.iter().enumerate() {
            let word = if place == 0 { "if" } else { "elif" };
            let header = format!("{word} {}:", expr(&branch.condition, Layout::Flat));
            self.line(branch.header, depth, header);
            let next = branches.get(place + 1).map_or(limit, |next| start(next.header));
            self.block(&branch.body, depth + 1, next);
        }
    }

    fn handlers(&mut self, handlers: &[Handler], depth: usize, limit: usize) {
        for (place, handler) in handlers.iter().enumerate() {
            let types = match handler.types.is_empty() {
                true => String::new(),
                false => format!(" {}", list(&handler.types)),
            };
            let name = handler.name.as_ref().map(|name| format!(" as {}", name.text));
            let header = format!("except{types}{}:", name.unwrap_or_default());
            self.line(handler.header, depth, header);
            let next = handlers.get(place + 1).map_or(limit, |next| start(next.header));
            self.block(&handler.body, depth + 1, next);
        }
    }

    /// The calls of a parallel block, one per line.
    fn calls(&mut self, calls: &[Call], depth: usize, limit: usize) {
        self.first = true;
        let mut column = 0;
        for call in calls {
            let (span, line) = match call {
                Call::Action(called) => {
                    (called.span, fitting(depth, |layout| action(called, layout)))
                }
                Call::Function(called) => {
                    (called.span, fitting(depth, |layout| function_call(called, layout)))
                }
            };
            column = self.column(start(span));
            self.line(span, depth, line);
        }
        self.flush(limit, column, depth);
    }
}

/// A line in one piece, or broken where that is too long.
fn fitting(depth: usize, line: impl Fn(Layout) -> String) -> String {
    let flat = line(Layout::Flat);
    match depth * INDENT + flat.chars().count() > WIDTH {
        true => line(Layout::Broken(depth)),
        false => flat,
    }
}

fn simple(kind: &StatementKind, layout: Layout) -> String {
    match kind {
        StatementKind::Assign { targets, value } => {
            format!("{} = {}", list(targets), source(value, layout))
        }
        StatementKind::Evaluate(Source::Expr(value))
            if leftmost(value).is_some_and(|name| CONTEXTUAL.contains(&name)) =>
        {
            format!("({})", expr(value, layout))
        }
        StatementKind::Evaluate(value) => source(value, layout),
        StatementKind::Return(None) => "return".to_string(),
        StatementKind::Return(Some(value)) => format!("return {}", expr(value, layout)),
        StatementKind::Sleep(None) => "sleep".to_string(),
        StatementKind::Sleep(Some(value)) => format!("sleep {}", expr(value, layout)),
        StatementKind::Break => "break".to_string(),
        StatementKind::Continue => "continue".to_string(),
        _ => "pass".to_string(),
    }
}

fn source(source: &Source, layout: Layout) -> String {
    match source {
        Source::Expr(value) => expr(value, layout),
        Source::Spread(Spread { items, item, action: called }) => {
            let items = expr(items, Layout::Flat);
            format!("spread {items}:{} -> {}", item.text, action(called, layout))
        }
        // Printed as lines of their own.
        Source::Parallel(_) => String::new(),
    }
}

fn list(names: &[Name]) -> String {
    names.iter().map(|name| name.text.as_str()).collect::<Vec<_>>().join(", ")
}
