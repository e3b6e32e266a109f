//! Statements leave the stack as they found it.

use super::{Body, Loop};
use crate::ast::{
    Block, Expr, ExprKind, Handler, Name, Operator, Source, Spread, Statement, StatementKind,
};
use crate::errors::Span;
use crate::interpret::code::Instruction;
use crate::value::Value;

impl<'a> Body<'a, '_> {
    pub(super) fn statement(&mut self, statement: &'a Statement) -> Result<(), String> {
        let span = statement.span;
        match &statement.kind {
            StatementKind::Assign { targets, value } => return self.assign(targets, value, span),
            StatementKind::Evaluate(value) => {
                self.source(value, span)?;
                self.push(Instruction::Pop, span);
            }
            StatementKind::For { targets, items, body } => {
                return self.for_loop(targets, items, body, span);
            }
            StatementKind::While { condition, body } => {
                return self.while_loop(condition, body, span);
            }
            StatementKind::If { .. } => return self.conditional(statement),
            StatementKind::Try { body, handlers } => return self.attempt(body, handlers, span),
            StatementKind::Return(value) => {
                match value {
                    Some(value) => self.expr(value)?,
                    None => self.constant(Value::None, span),
                }
                self.push(Instruction::Return, span);
            }
            StatementKind::Break => return self.leave(span, true),
            StatementKind::Continue => return self.leave(span, false),
            StatementKind::Pass => {}
            StatementKind::Sleep(time) => {
                match time {
                    Some(time) => self.expr(time)?,
                    None => self.constant(Value::Int(0), span),
                }
                self.push(Instruction::Sleep, span);
                self.push(Instruction::Pop, span);
            }
            StatementKind::Broken(_) => return Err("a statement that cannot be read".to_string()),
        }
        Ok(())
    }

    fn assign(&mut self, targets: &'a [Name], value: &'a Source, span: Span) -> Result<(), String> {
        if let ([target], Some(added)) = (targets, appended(targets, value)) {
            let variable = self.variable(&target.text);
            self.push(Instruction::Need(variable), span);
            self.expr(added)?;
            self.push(Instruction::Append(variable), added.span);
            return Ok(());
        }
        self.source(value, span)?;
        self.targets(targets, span);
        Ok(())
    }

    /// The value on the stack goes to one variable, or its items to several.
    fn targets(&mut self, targets: &'a [Name], span: Span) {
        if targets.len() > 1 {
            self.push(Instruction::Unpack(targets.len()), span);
        }
        for target in targets {
            let variable = self.variable(&target.text);
            self.push(Instruction::Store(variable), target.span);
        }
    }

    fn source(&mut self, source: &'a Source, span: Span) -> Result<(), String> {
        match source {
            Source::Expr(expr) => self.expr(expr),
            Source::Parallel(calls) => self.parallel(calls, span),
            Source::Spread(spread) => self.spread(spread, span),
        }
    }

    /// The arguments of all calls are worked out first; then all run.
    fn spread(&mut self, spread: &'a Spread, span: Span) -> Result<(), String> {
        self.items(&spread.items)?;
        self.push(Instruction::Jobs, span);
        // The item is a variable of the spread alone.
        let outer = self.variables.get(spread.item.text.as_str()).copied();
        let item = self.fresh(&spread.item.text);
        self.variables.insert(&spread.item.text, item);
        let head = self.push(Instruction::Next(0), span);
        self.push(Instruction::Store(item), span);
        self.action_job(&spread.action)?;
        self.push(Instruction::Jump(head), span);
        self.land(head);
        match outer {
            Some(outer) => self.variables.insert(&spread.item.text, outer),
            None => self.variables.remove(spread.item.text.as_str()),
        };
        self.push(Instruction::RunJobs, span);
        Ok(())
    }

    /// Begins to go through a value. A range is gone through without making a list of it.
    fn items(&mut self, items: &'a Expr) -> Result<(), String> {
        if let ExprKind::Call(call) = &items.kind
            && call.name.text == "range"
            && !self.program.functions.contains_key("range")
        {
            for argument in &call.arguments {
                self.expr(&argument.value)?;
            }
            self.push(Instruction::IterateRange(call.arguments.len()), items.span);
            return Ok(());
        }
        self.expr(items)?;
        self.push(Instruction::Iterate, items.span);
        Ok(())
    }

    fn for_loop(
        &mut self,
        targets: &'a [Name],
        items: &'a Expr,
        body: &'a Block,
        span: Span,
    ) -> Result<(), String> {
        self.items(items)?;
        let head = self.push(Instruction::Next(0), span);
        self.targets(targets, span);
        self.round(head, true, body)?;
        self.push(Instruction::Jump(head), span);
        self.land(head);
        self.end_of_loop();
        Ok(())
    }

    fn while_loop(
        &mut self,
        condition: &'a Expr,
        body: &'a Block,
        span: Span,
    ) -> Result<(), String> {
        let head = self.here();
        self.expr(condition)?;
        let out = self.push(Instruction::JumpIfFalse(0), span);
        self.round(head, false, body)?;
        self.push(Instruction::Jump(head), span);
        self.land(out);
        self.end_of_loop();
        Ok(())
    }

    fn round(&mut self, head: usize, iterates: bool, body: &'a Block) -> Result<(), String> {
        self.loops.push(Loop { head, breaks: Vec::new(), tries: self.tries, iterates });
        self.block(body)
    }

    fn end_of_loop(&mut self) {
        let breaks = self.loops.pop().map(|inner| inner.breaks).unwrap_or_default();
        breaks.into_iter().for_each(|jump| self.land(jump));
    }

    /// `break` and `continue` leave the `try` blocks of their loop, too.
    fn leave(&mut self, span: Span, ends: bool) -> Result<(), String> {
        let Some(Loop { head, tries, iterates, .. }) = self.loops.last() else {
            return Err("a loop to leave is missing".to_string());
        };
        let (head, open, iterates) = (*head, self.tries - tries, *iterates);
        for _ in 0..open {
            self.push(Instruction::EndTry, span);
        }
        if !ends {
            self.push(Instruction::Jump(head), span);
            return Ok(());
        }
        if iterates {
            self.push(Instruction::StopIterating, span);
        }
        let jump = self.push(Instruction::Jump(0), span);
        if let Some(inner) = self.loops.last_mut() {
            inner.breaks.push(jump);
        }
        Ok(())
    }

    fn conditional(&mut self, statement: &'a Statement) -> Result<(), String> {
        let StatementKind::If { branches, otherwise } = &statement.kind else { return Ok(()) };
        let mut ends = Vec::new();
        for branch in branches {
            self.expr(&branch.condition)?;
            let next = self.push(Instruction::JumpIfFalse(0), branch.header);
            self.block(&branch.body)?;
            ends.push(self.push(Instruction::Jump(0), branch.header));
            self.land(next);
        }
        if let Some(otherwise) = otherwise {
            self.block(&otherwise.body)?;
        }
        ends.into_iter().for_each(|end| self.land(end));
        Ok(())
    }

    fn attempt(
        &mut self,
        body: &'a Block,
        handlers: &'a [Handler],
        span: Span,
    ) -> Result<(), String> {
        let attempt = self.push(Instruction::Try(0), span);
        self.tries += 1;
        self.block(body)?;
        self.tries -= 1;
        self.push(Instruction::EndTry, span);
        let mut ends = vec![self.push(Instruction::Jump(0), span)];
        self.land(attempt);
        for handler in handlers {
            let types = handler.types.iter().map(|name| name.text.clone()).collect();
            self.program.code.handlers.push(types);
            let types = self.program.code.handlers.len() - 1;
            let next = self.push(Instruction::Catch(types, 0), handler.header);
            if let Some(name) = &handler.name {
                let variable = self.variable(&name.text);
                self.push(Instruction::Bind(variable), name.span);
            }
            self.block(&handler.body)?;
            ends.push(self.push(Instruction::Jump(0), handler.header));
            self.land(next);
        }
        self.push(Instruction::Reraise, span);
        ends.into_iter().for_each(|end| self.land(end));
        Ok(())
    }
}

/// What is added in `x = x + ..`.
fn appended<'a>(targets: &[Name], value: &'a Source) -> Option<&'a Expr> {
    let ([target], Source::Expr(Expr { kind: ExprKind::Arithmetic(first, rest), .. })) =
        (targets, value)
    else {
        return None;
    };
    match (&first.kind, rest.as_slice()) {
        (ExprKind::Name(name), [(Operator::Add, added)]) if *name == target.text => Some(added),
        _ => None,
    }
}
