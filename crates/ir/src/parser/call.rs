//! Calls of functions and actions.

use super::{Parser, Read};
use crate::ast::{Action, Argument, Call, FunctionCall, Name};
use crate::errors::{Code, Problem};
use crate::lexer::Kind;

impl Parser<'_> {
    /// What can run beside others: an action or a function.
    pub(super) fn call(&mut self) -> Read<Call> {
        match self.peek() {
            Kind::At => Ok(Call::Action(self.action()?)),
            Kind::Name if self.peek_at(1) == Kind::LeftParen => {
                Ok(Call::Function(self.function_call()?))
            }
            _ => self.unexpected("the call of an action or a function"),
        }
    }

    pub(super) fn function_call(&mut self) -> Read<FunctionCall> {
        let start = self.token();
        let name = self.name("a function")?;
        self.expect(Kind::LeftParen)?;
        let arguments = self.entries(Kind::RightParen, |parser| {
            let name = match parser.peek_at(1) {
                Kind::Assign if parser.peek() == Kind::Name => {
                    let name = parser.any_name();
                    parser.next();
                    Some(name)
                }
                _ => None,
            };
            Ok(Argument { name, value: parser.expr()? })
        })?;
        Ok(FunctionCall { name, arguments, span: self.since(start) })
    }

    pub(super) fn action(&mut self) -> Read<Action> {
        let start = self.next();
        let name = self.action_name()?;
        let open = self.at;
        self.expect(Kind::LeftParen)?;
        let arguments = self.entries(Kind::RightParen, |parser| {
            if parser.peek() != Kind::Name || parser.peek_at(1) != Kind::Assign {
                let problem =
                    Problem::new(Code::I2, parser.token().span, "the argument has no name");
                return parser.fail(problem.hint("actions take named arguments: @f(order=1)"));
            }
            let name = parser.any_name();
            parser.next();
            Ok((name, parser.expr()?))
        });
        if arguments.is_err()
            && let Some(close) = self.closing(open)
        {
            // What is wrong with the policies is found all the same.
            self.at = close + 1;
        }
        let policies = self.policies();
        let (arguments, policies) = (arguments?, policies?);
        Ok(Action { name, arguments, policies, span: self.since(start) })
    }

    fn action_name(&mut self) -> Read<Name> {
        if self.peek() != Kind::Name {
            return self.unexpected("the name of an action");
        }
        let mut name = self.any_name();
        while self.eat(Kind::Dot) {
            if self.peek() != Kind::Name {
                return self.unexpected("the name of an action");
            }
            let part = self.any_name();
            name.text = format!("{}.{}", name.text, part.text);
            name.span = name.span.to(part.span);
        }
        Ok(name)
    }
}
