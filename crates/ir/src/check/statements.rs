//! Statements in places where they mean nothing.

use super::Check;
use crate::Dialect;
use crate::ast::{Block, Function, Handler, Statement, StatementKind};
use crate::errors::{Code, Problem};

impl Check<'_> {
    pub(super) fn statements(&mut self, function: &Function) {
        self.loops(&function.body, false);
    }

    fn loops(&mut self, block: &Block, inside: bool) {
        for statement in &block.statements {
            match &statement.kind {
                StatementKind::Break if !inside => self.outside(statement, "break"),
                StatementKind::Continue if !inside => self.outside(statement, "continue"),
                StatementKind::Try { handlers, .. } => self.handlers(statement, handlers),
                _ => {}
            }
            let is_loop =
                matches!(statement.kind, StatementKind::For { .. } | StatementKind::While { .. });
            for inner in statement.blocks() {
                self.loops(inner, inside || is_loop);
            }
        }
    }

    fn outside(&mut self, statement: &Statement, word: &str) {
        self.report(Problem::new(Code::I6, statement.span, format!("`{word}` stands in no loop")));
    }

    fn handlers(&mut self, statement: &Statement, handlers: &[Handler]) {
        if handlers.is_empty() && self.dialect == Dialect::Waymark {
            let problem = Problem::new(Code::I6, statement.span, "`try` without `except`");
            self.report(problem.hint("add `except:`, or leave out `try:`"));
        }
        let general = handlers.iter().position(|handler| {
            handler.types.is_empty() || handler.types.iter().any(|name| name.text == "Exception")
        });
        let after = general.map_or(handlers.len(), |general| general + 1);
        for handler in &handlers[after..] {
            let problem = Problem::new(Code::I6, handler.header, "this handler is never reached");
            self.report(problem.hint("the one before it catches everything; put it last"));
        }
    }
}
