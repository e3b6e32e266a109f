//! `fn name(input: [..], output: [..]):` and the file around it.

use super::{Parser, Read};
use crate::ast::{Function, Name, Tree};
use crate::errors::{Code, Problem};
use crate::lexer::Kind;

impl Parser<'_> {
    pub(super) fn tree(&mut self) -> Tree {
        let mut tree = Tree::default();
        while self.peek() != Kind::End {
            if self.is_word("fn") {
                tree.functions.push(self.function());
            } else if matches!(self.peek(), Kind::Newline | Kind::Dedent) {
                self.next();
            } else {
                self.outside();
            }
        }
        tree
    }

    /// Something that stands in no function: reported once, however long it is.
    fn outside(&mut self) {
        let token = self.token();
        let hint = match self.word() {
            "def" | "function" | "func" => "functions begin with `fn`",
            _ => "statements stand in functions: fn main(input: [], output: [x]):",
        };
        let problem =
            Problem::new(Code::I2, token.span, "expected `fn`, found a statement").hint(hint);
        self.problems.push(problem);
        while self.peek() != Kind::End && !self.begins_function() {
            self.next();
        }
    }

    fn begins_function(&self) -> bool {
        let before = self.at.checked_sub(1).map(|at| self.tokens[at].kind);
        self.is_word("fn") && matches!(before, Some(Kind::Newline | Kind::Dedent) | None)
    }

    fn function(&mut self) -> Function {
        let start = self.next();
        let reported = self.problems.len();
        let nameless = Name { text: String::new(), span: start.span };
        let name = self.name("the name of the function").unwrap_or(nameless);
        let header = self.header();
        let broken = header.is_err() || name.text.is_empty();
        if broken {
            self.forget_consequences(reported, start.span);
            // Whatever the header is, the block behind it is its own.
            while !matches!(self.peek(), Kind::Newline | Kind::End) {
                self.next();
            }
        }
        let header_span = self.since(start);
        let (inputs, outputs) = header.unwrap_or_default();
        let body = self.block();
        Function { name, inputs, outputs, body, header: header_span, broken }
    }

    fn header(&mut self) -> Read<(Vec<Name>, Vec<Name>)> {
        self.expect(Kind::LeftParen)?;
        self.expect_word("input")?;
        let inputs = self.names("an input")?;
        self.expect(Kind::Comma)?;
        self.expect_word("output")?;
        let outputs = self.names("an output")?;
        self.eat(Kind::Comma);
        self.expect(Kind::RightParen)?;
        self.expect(Kind::Colon)?;
        Ok((inputs, outputs))
    }

    fn names(&mut self, what: &str) -> Read<Vec<Name>> {
        self.expect(Kind::Colon)?;
        self.expect(Kind::LeftBracket)?;
        self.entries(Kind::RightBracket, |parser| parser.name(what))
    }
}
