//! Expressions leave one value on the stack.

use super::Body;
use crate::ast::{Access, Comparison, Expr, ExprKind};
use crate::interpret::code::Instruction;
use crate::value::Value;

impl<'a> Body<'a, '_> {
    pub(super) fn expr(&mut self, expr: &'a Expr) -> Result<(), String> {
        let span = expr.span;
        match &expr.kind {
            ExprKind::None => self.constant(Value::None, span),
            ExprKind::Bool(value) => self.constant(Value::Bool(*value), span),
            ExprKind::Int(value) => self.constant(Value::Int(*value), span),
            ExprKind::Float(value, _) => self.constant(Value::Float(*value), span),
            ExprKind::Str(value, _) => self.constant(Value::text(value), span),
            ExprKind::Name(name) => {
                let variable = self.variable(name);
                self.push(Instruction::Load(variable), span);
            }
            ExprKind::List(items) => {
                items.iter().try_for_each(|item| self.expr(item))?;
                self.push(Instruction::List(items.len()), span);
            }
            ExprKind::Dict(entries) => {
                for (key, value) in entries {
                    self.expr(key)?;
                    self.expr(value)?;
                }
                self.push(Instruction::Dict(entries.len()), span);
            }
            ExprKind::Arithmetic(first, rest) => {
                self.expr(first)?;
                for (operator, operand) in rest {
                    self.expr(operand)?;
                    self.push(Instruction::Calculate(*operator), operand.span);
                }
            }
            ExprKind::Compare(first, rest) => self.comparison(first, rest)?,
            ExprKind::And(terms) => self.terms(terms, Instruction::JumpOrPopIfFalse(0))?,
            ExprKind::Or(terms) => self.terms(terms, Instruction::JumpOrPopIfTrue(0))?,
            ExprKind::Not(inner) => {
                self.expr(inner)?;
                self.push(Instruction::Not, span);
            }
            ExprKind::Negate(inner) => {
                self.expr(inner)?;
                self.push(Instruction::Negate, span);
            }
            ExprKind::Access(base, steps) => self.access(base, steps)?,
            ExprKind::Call(call) => self.call(call)?,
            ExprKind::Action(action) => self.act(action)?,
            ExprKind::Parallel(calls) => self.parallel(calls, span)?,
        }
        Ok(())
    }

    /// `and` and `or`: the first term that decides is the value, and the others do not happen.
    fn terms(&mut self, terms: &'a [Expr], decided: Instruction) -> Result<(), String> {
        let mut jumps = Vec::new();
        for (place, term) in terms.iter().enumerate() {
            self.expr(term)?;
            if place + 1 < terms.len() {
                jumps.push(self.push(decided, term.span));
            }
        }
        jumps.into_iter().for_each(|jump| self.land(jump));
        Ok(())
    }

    fn comparison(
        &mut self,
        first: &'a Expr,
        rest: &'a [(Comparison, Expr)],
    ) -> Result<(), String> {
        self.expr(first)?;
        let mut jumps = Vec::new();
        for (place, (comparison, operand)) in rest.iter().enumerate() {
            self.expr(operand)?;
            if place + 1 < rest.len() {
                let instruction = Instruction::CompareOr(*comparison, 0);
                jumps.push(self.push(instruction, operand.span));
            } else {
                self.push(Instruction::Compare(*comparison), operand.span);
            }
        }
        jumps.into_iter().for_each(|jump| self.land(jump));
        Ok(())
    }

    fn access(&mut self, base: &'a Expr, steps: &'a [Access]) -> Result<(), String> {
        self.expr(base)?;
        for step in steps {
            match step {
                Access::Field(name) => {
                    self.program.code.names.push(name.text.clone());
                    let field = self.program.code.names.len() - 1;
                    self.push(Instruction::Field(field), name.span);
                }
                Access::Index(index) => {
                    self.expr(index)?;
                    self.push(Instruction::Index, index.span);
                }
            }
        }
        Ok(())
    }
}
