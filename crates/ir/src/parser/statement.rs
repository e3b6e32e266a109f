//! Statements and blocks.

use super::{DEEPEST, Failed, Parser, Read};
use crate::ast::{
    Block, Branch, Expr, Handler, Name, Otherwise, Source, Spread, Statement, StatementKind,
};
use crate::errors::{Code, Problem, Span};
use crate::lexer::Kind;

impl Parser<'_> {
    /// The indented lines behind a header.
    pub(super) fn block(&mut self) -> Block {
        if !self.eat(Kind::Newline) && self.peek() != Kind::End {
            let problem = Problem::new(Code::I2, self.token().span, "expected the end of the line");
            self.problems.push(problem.hint("put the block into lines of its own"));
            self.skip_line();
            if self.peek() != Kind::Indent {
                return Block::default();
            }
        }
        if self.peek() != Kind::Indent {
            let problem = Problem::new(Code::I2, self.token().span, "expected an indented block");
            self.problems.push(problem.hint("write `pass` for a block that does nothing"));
            return Block::default();
        }
        self.indented()
    }

    fn indented(&mut self) -> Block {
        let start = self.next();
        if self.blocks == DEEPEST {
            let what = format!("blocks are nested more than {DEEPEST} levels deep");
            self.problems
                .push(Problem::new(Code::I2, start.span, what).hint("make functions of them"));
            self.skip_block();
            return Block { statements: Vec::new(), span: start.span };
        }
        self.blocks += 1;
        let statements = self.statements();
        self.blocks -= 1;
        let span = self.since(start);
        self.eat(Kind::Dedent);
        Block { statements, span }
    }

    /// Goes to the end of a block without reading it.
    fn skip_block(&mut self) {
        let mut depth = 1;
        while depth > 0 && self.peek() != Kind::End {
            match self.next().kind {
                Kind::Indent => depth += 1,
                Kind::Dedent => depth -= 1,
                _ => {}
            }
        }
    }

    fn statements(&mut self) -> Vec<Statement> {
        let mut statements = Vec::new();
        while !matches!(self.peek(), Kind::Dedent | Kind::End) {
            if self.peek() == Kind::Indent {
                let problem = Problem::new(Code::I2, self.token().span, "unexpected indentation");
                self.problems.push(problem.hint("only a line that ends with `:` begins a block"));
                // Its statements are read all the same, for their errors.
                statements.extend(self.indented().statements);
                continue;
            }
            if self.eat(Kind::Newline) {
                continue;
            }
            statements.push(self.statement());
        }
        statements
    }

    fn statement(&mut self) -> Statement {
        let start = self.token();
        let reported = self.problems.len();
        match self.statement_kind() {
            Ok((kind, span)) => Statement { kind, span: span.unwrap_or_else(|| self.since(start)) },
            Err(Failed) => {
                self.forget_consequences(reported, start.span);
                let mut names = self.targets_since(start.span);
                self.skip_line();
                if self.peek() == Kind::Indent {
                    names.extend(bound(&self.indented()));
                }
                Statement { kind: StatementKind::Broken(names), span: start.span }
            }
        }
    }

    /// The names that a line which cannot be read would have assigned.
    fn targets_since(&self, start: Span) -> Vec<Name> {
        let first = self.tokens.partition_point(|token| token.span.start < start.start);
        let line = self.tokens[first..].iter().take_while(|token| token.kind != Kind::Newline);
        let line: Vec<_> = line.copied().collect();
        let is_target = |kind: Kind| matches!(kind, Kind::Name | Kind::Comma);
        let targets = line.iter().take_while(|token| is_target(token.kind)).count();
        if line.get(targets).is_none_or(|token| token.kind != Kind::Assign) {
            return Vec::new();
        }
        let names = line[..targets].iter().filter(|token| token.kind == Kind::Name);
        let name = |token: &crate::lexer::Token| Name {
            text: token.text(self.text).into(),
            span: token.span,
        };
        names.map(name).collect()
    }

    /// A statement, and its first line if it has blocks.
    fn statement_kind(&mut self) -> Read<(StatementKind, Option<Span>)> {
        let start = self.token();
        let word = if self.peek() == Kind::Name { self.word() } else { "" };
        match word {
            "for" => self.for_loop(),
            "while" => self.while_loop(),
            "if" => self.conditional(),
            "try" => self.attempt(),
            "elif" | "else" | "except" => {
                let before = if word == "except" { "try" } else { "if" };
                let problem = Problem::new(
                    Code::I2,
                    start.span,
                    format!("`{word}` without `{before}` before it"),
                );
                self.problems.push(problem);
                self.lost_block()
            }
            "finally" if self.peek_at(1) == Kind::Colon => {
                let problem = Problem::new(Code::I2, start.span, "there is no `finally`");
                self.problems.push(problem.hint("write what is to happen in both cases behind it"));
                self.lost_block()
            }
            "fn" => self.fail(Problem::new(Code::I2, start.span, "a function stands in no block")),
            _ => {
                let kind = self.simple(word)?;
                if !matches!(kind, StatementKind::Assign { value: Source::Parallel(_), .. })
                    && !matches!(kind, StatementKind::Evaluate(Source::Parallel(_)))
                {
                    let span = self.since(start);
                    self.end_of_line()?;
                    return Ok((kind, Some(span)));
                }
                Ok((kind, Some(start.span)))
            }
        }
    }

    /// Reads the block behind a header that belongs to nothing.
    fn lost_block(&mut self) -> Read<(StatementKind, Option<Span>)> {
        let start = self.token();
        while !matches!(self.peek(), Kind::Newline | Kind::End) {
            self.next();
        }
        let mut names = Vec::new();
        if self.peek_at(1) == Kind::Indent {
            names = bound(&self.block());
        } else {
            self.eat(Kind::Newline);
        }
        Ok((StatementKind::Broken(names), Some(start.span)))
    }

    fn end_of_line(&mut self) -> Read<()> {
        match self.peek() {
            Kind::Newline => {
                self.next();
                Ok(())
            }
            Kind::End | Kind::Dedent => Ok(()),
            _ => self.unexpected("the end of the line"),
        }
    }

    /// A statement of one line.
    fn simple(&mut self, word: &str) -> Read<StatementKind> {
        match word {
            "return" => {
                self.next();
                Ok(StatementKind::Return(self.value_if_any()?))
            }
            "break" => {
                self.next();
                Ok(StatementKind::Break)
            }
            "continue" => {
                self.next();
                Ok(StatementKind::Continue)
            }
            "pass" if matches!(self.peek_at(1), Kind::Newline | Kind::End) => {
                self.next();
                Ok(StatementKind::Pass)
            }
            "sleep" if self.is_sleep() => {
                self.next();
                Ok(StatementKind::Sleep(self.value_if_any()?))
            }
            _ if self.is_assignment() => self.assignment(),
            _ => Ok(StatementKind::Evaluate(self.source()?)),
        }
    }

    fn value_if_any(&mut self) -> Read<Option<Expr>> {
        match self.peek() {
            Kind::Newline | Kind::End | Kind::Dedent => Ok(None),
            _ => {
                let value = self.expr()?;
                if self.peek() == Kind::Comma {
                    let problem =
                        Problem::new(Code::I2, self.token().span, "expected one value, found `,`");
                    return self.fail(problem.hint("write a list: [a, b]"));
                }
                Ok(Some(value))
            }
        }
    }

    /// `sleep 5` and `sleep(5)`, and not a variable or a function of that name.
    fn is_sleep(&self) -> bool {
        let next = self.peek_at(1);
        let call = next == Kind::LeftParen && self.defined.contains(&"sleep");
        let word = next == Kind::Name && matches!(self.word_at(1), "in" | "and" | "or");
        matches!(next, Kind::Newline | Kind::End) || (next.begins_expression() && !call && !word)
    }

    fn is_assignment(&self) -> bool {
        let mut ahead = 0;
        while self.peek_at(ahead) == Kind::Name && self.peek_at(ahead + 1) == Kind::Comma {
            ahead += 2;
        }
        self.peek_at(ahead) == Kind::Name && self.peek_at(ahead + 1) == Kind::Assign
    }

    fn assignment(&mut self) -> Read<StatementKind> {
        let targets = self.targets()?;
        self.expect(Kind::Assign)?;
        Ok(StatementKind::Assign { targets, value: self.source()? })
    }

    fn targets(&mut self) -> Read<Vec<Name>> {
        let mut targets = vec![self.name("a variable")?];
        while self.eat(Kind::Comma) {
            targets.push(self.name("a variable")?);
        }
        Ok(targets)
    }

    fn source(&mut self) -> Read<Source> {
        if self.is_word("parallel") && self.peek_at(1) == Kind::Colon {
            return self.parallel_block();
        }
        if self.is_word("spread") && self.has_arrow() {
            return Ok(Source::Spread(self.spread()?));
        }
        let expr = self.expr()?;
        if self.peek() == Kind::Comma {
            let problem =
                Problem::new(Code::I2, self.token().span, "expected one value, found `,`");
            return self.fail(problem.hint("write a list: [a, b]"));
        }
        Ok(Source::Expr(expr))
    }

    /// True when this line has an arrow outside of brackets, as only a spread has.
    fn has_arrow(&self) -> bool {
        let mut depth = 0_usize;
        for token in &self.tokens[self.at..] {
            match token.kind {
                Kind::LeftParen | Kind::LeftBracket | Kind::LeftBrace => depth += 1,
                Kind::RightParen | Kind::RightBracket | Kind::RightBrace => {
                    depth = depth.saturating_sub(1);
                }
                Kind::Arrow if depth == 0 => return true,
                Kind::Newline | Kind::End => return false,
                _ => {}
            }
        }
        false
    }

    fn spread(&mut self) -> Read<Spread> {
        self.next();
        let items = self.expr()?;
        self.expect(Kind::Colon)?;
        let item = self.name("an item")?;
        self.expect(Kind::Arrow)?;
        if self.peek() != Kind::At {
            return self.unexpected("an action, such as `@name(..)`,");
        }
        Ok(Spread { items, item, action: self.action()? })
    }

    fn parallel_block(&mut self) -> Read<Source> {
        let start = self.next();
        self.expect(Kind::Colon)?;
        if self.peek() != Kind::Newline || self.peek_at(1) != Kind::Indent {
            let problem = Problem::new(Code::I2, start.span, "expected an indented block of calls");
            return self.fail(problem.hint("write one call per line"));
        }
        self.next();
        self.next();
        let mut calls = Vec::new();
        while !matches!(self.peek(), Kind::Dedent | Kind::End) {
            match self.call().and_then(|call| self.end_of_line().map(|()| call)) {
                Ok(call) => calls.push(call),
                Err(Failed) => {
                    self.skip_line();
                    if self.eat(Kind::Indent) {
                        self.skip_block();
                    }
                }
            }
        }
        self.eat(Kind::Dedent);
        Ok(Source::Parallel(calls))
    }

    fn for_loop(&mut self) -> Read<(StatementKind, Option<Span>)> {
        let start = self.next();
        let header = (|| {
            let targets = self.targets()?;
            self.expect_word("in")?;
            let items = self.expr()?;
            self.expect(Kind::Colon)?;
            Ok((targets, items))
        })();
        let (header, span, body) = self.with_block(start.span, header);
        let kind = match header {
            Ok((targets, items)) => StatementKind::For { targets, items, body },
            Err(Failed) => StatementKind::Broken(bound(&body)),
        };
        Ok((kind, Some(span)))
    }

    fn while_loop(&mut self) -> Read<(StatementKind, Option<Span>)> {
        let start = self.next();
        let header = self.condition();
        let (condition, span, body) = self.with_block(start.span, header);
        let kind = match condition {
            Ok(condition) => StatementKind::While { condition, body },
            Err(Failed) => StatementKind::Broken(bound(&body)),
        };
        Ok((kind, Some(span)))
    }

    fn condition(&mut self) -> Read<Expr> {
        let condition = self.expr()?;
        self.expect(Kind::Colon)?;
        Ok(condition)
    }

    fn conditional(&mut self) -> Read<(StatementKind, Option<Span>)> {
        let first = self.token().span;
        let mut branches = Vec::new();
        // What the branches assign that have no condition to stand behind.
        let mut broken: Option<Vec<Name>> = None;
        let mut header = None;
        while header.is_none() || self.is_word("elif") {
            let start = self.next();
            let condition = self.condition();
            let (condition, span, body) = self.with_block(start.span, condition);
            header.get_or_insert(span);
            match condition {
                Ok(condition) => branches.push(Branch { condition, body, header: span }),
                Err(Failed) => broken.get_or_insert_default().extend(bound(&body)),
            }
        }
        let otherwise = self.is_word("else").then(|| {
            let start = self.next();
            let colon = self.expect(Kind::Colon).map(|_| ());
            let (_, header, body) = self.with_block(start.span, colon);
            Otherwise { body, header }
        });
        if let Some(mut names) = broken {
            names.extend(branches.iter().flat_map(|branch| bound(&branch.body)));
            names.extend(otherwise.iter().flat_map(|otherwise| bound(&otherwise.body)));
            return Ok((StatementKind::Broken(names), Some(first)));
        }
        Ok((StatementKind::If { branches, otherwise }, header))
    }

    fn attempt(&mut self) -> Read<(StatementKind, Option<Span>)> {
        let start = self.next();
        let colon = self.expect(Kind::Colon).map(|_| ());
        let (_, span, body) = self.with_block(start.span, colon);
        let mut handlers = Vec::new();
        while self.is_word("except") {
            let start = self.next();
            let header = self.handler();
            let (header, header_span, body) = self.with_block(start.span, header);
            let (types, name) = header.unwrap_or_default();
            handlers.push(Handler { types, name, body, header: header_span });
        }
        if self.is_word("else") {
            let problem = Problem::new(Code::I2, self.token().span, "`try` has no `else`");
            self.problems.push(problem.hint("write it at the end of the block of `try`"));
            self.lost_block()?;
        }
        Ok((StatementKind::Try { body, handlers }, Some(span)))
    }

    /// `A, B as e:`, the types with or without parentheses around them.
    fn handler(&mut self) -> Read<(Vec<Name>, Option<Name>)> {
        let mut types = Vec::new();
        if self.eat(Kind::LeftParen) {
            types = self.entries(Kind::RightParen, |parser| parser.type_name())?;
        } else if self.peek() == Kind::Name && !self.is_as() {
            types.push(self.type_name()?);
            while self.eat(Kind::Comma) {
                types.push(self.type_name()?);
            }
        }
        let name = match self.eat_word("as") {
            true => Some(self.name("the failure")?),
            false => None,
        };
        self.expect(Kind::Colon)?;
        Ok((types, name))
    }

    /// `except as e:`, and not a type that is called so.
    fn is_as(&self) -> bool {
        self.is_word("as") && self.peek_at(1) == Kind::Name
    }

    /// A type may carry its module: `requests.Timeout`.
    fn type_name(&mut self) -> Read<Name> {
        let mut name = self.name("the type of a failure")?;
        while self.eat(Kind::Dot) {
            let part = self.name("the type of a failure")?;
            name = Name {
                text: format!("{}.{}", name.text, part.text),
                span: name.span.to(part.span),
            };
        }
        Ok(name)
    }

    /// Reads the block behind a header, also when the header could not be read.
    fn with_block<T>(&mut self, start: Span, header: Read<T>) -> (Read<T>, Span, Block) {
        if header.is_err() {
            while !matches!(self.peek(), Kind::Newline | Kind::End) {
                self.next();
            }
            if self.peek_at(1) != Kind::Indent {
                self.eat(Kind::Newline);
                return (header, start, Block::default());
            }
        }
        let last = self.at.checked_sub(1).map_or(start, |at| self.tokens[at].span);
        (header, start.to(last), self.block())
    }
}

/// The names that a block assigns.
fn bound(block: &Block) -> Vec<Name> {
    let mut names = Vec::new();
    block.visit(&mut |statement| names.extend(statement.binds().into_iter().cloned()));
    names
}
