//! Expressions, from the weakest operator to the strongest.

use super::{Parser, Read};
use crate::Dialect;
use crate::ast::{Access, Comparison, Expr, ExprKind, Operator};
use crate::errors::{Code, Problem};
use crate::lexer::{Kind, Token, int, unquoted};

/// One more than the largest integer: only `-9223372036854775808` may say it.
const ABOVE: u64 = 1 << 63;

impl Parser<'_> {
    pub(super) fn expr(&mut self) -> Read<Expr> {
        self.nested(|parser| parser.or())
    }

    fn or(&mut self) -> Read<Expr> {
        let start = self.token();
        let first = self.and()?;
        if !self.is_word("or") {
            return Ok(first);
        }
        let mut terms = vec![first];
        while self.eat_word("or") {
            terms.push(self.and()?);
        }
        Ok(self.made(start, ExprKind::Or(terms)))
    }

    fn and(&mut self) -> Read<Expr> {
        let start = self.token();
        let first = self.not()?;
        if !self.is_word("and") {
            return Ok(first);
        }
        let mut terms = vec![first];
        while self.eat_word("and") {
            terms.push(self.not()?);
        }
        Ok(self.made(start, ExprKind::And(terms)))
    }

    fn not(&mut self) -> Read<Expr> {
        if !self.is_word("not") || self.not_is_unary() {
            return self.comparison();
        }
        let start = self.next();
        let inner = self.nested(|parser| parser.not())?;
        Ok(self.made(start, ExprKind::Not(Box::new(inner))))
    }

    /// Waymark reads `not x in y` as `(not x) in y`.
    fn not_is_unary(&self) -> bool {
        self.reading.dialect == Dialect::Waymark && self.reading.certain
    }

    fn comparison(&mut self) -> Read<Expr> {
        let start = self.token();
        let first = self.sum()?;
        let mut rest = Vec::new();
        while let Some(comparison) = self.comparison_sign() {
            rest.push((comparison, self.sum()?));
        }
        if rest.is_empty() {
            return Ok(first);
        }
        Ok(self.made(start, ExprKind::Compare(Box::new(first), rest)))
    }

    fn comparison_sign(&mut self) -> Option<Comparison> {
        let comparison = match self.peek() {
            Kind::Equal => Comparison::Equal,
            Kind::NotEqual => Comparison::NotEqual,
            Kind::Less => Comparison::Less,
            Kind::LessEqual => Comparison::LessEqual,
            Kind::Greater => Comparison::Greater,
            Kind::GreaterEqual => Comparison::GreaterEqual,
            Kind::Name if self.word() == "in" => Comparison::In,
            Kind::Name if self.word() == "not" && self.word_at(1) == "in" => {
                self.next();
                Comparison::NotIn
            }
            _ => return None,
        };
        self.next();
        Some(comparison)
    }

    fn sum(&mut self) -> Read<Expr> {
        self.chain(Self::product, |kind| match kind {
            Kind::Plus => Some(Operator::Add),
            Kind::Minus => Some(Operator::Subtract),
            _ => None,
        })
    }

    fn product(&mut self) -> Read<Expr> {
        self.chain(Self::unary, |kind| match kind {
            Kind::Star => Some(Operator::Multiply),
            Kind::Slash => Some(Operator::Divide),
            Kind::DoubleSlash => Some(Operator::FloorDivide),
            Kind::Percent => Some(Operator::Modulo),
            _ => None,
        })
    }

    /// Operators of one rank.
    fn chain(
        &mut self,
        operand: impl Fn(&mut Self) -> Read<Expr>,
        operator: impl Fn(Kind) -> Option<Operator>,
    ) -> Read<Expr> {
        let start = self.token();
        let first = operand(self)?;
        let mut rest = Vec::new();
        while let Some(operator) = operator(self.peek()) {
            self.next();
            rest.push((operator, operand(self)?));
        }
        if rest.is_empty() {
            return Ok(first);
        }
        Ok(self.made(start, ExprKind::Arithmetic(Box::new(first), rest)))
    }

    fn unary(&mut self) -> Read<Expr> {
        if self.is_word("not") && self.not_is_unary() {
            let start = self.next();
            let inner = self.nested(|parser| parser.unary())?;
            return Ok(self.made(start, ExprKind::Not(Box::new(inner))));
        }
        if self.peek() != Kind::Minus {
            return self.postfix();
        }
        let start = self.next();
        if self.peek() == Kind::Int && int(self.word()) == Ok(ABOVE) {
            self.next();
            return Ok(self.made(start, ExprKind::Int(i64::MIN)));
        }
        let inner = self.nested(|parser| parser.unary())?;
        Ok(self.made(start, ExprKind::Negate(Box::new(inner))))
    }

    fn postfix(&mut self) -> Read<Expr> {
        let start = self.token();
        // `(a.b).c` is `a.b.c`.
        let (base, mut steps) = match self.primary()? {
            Expr { kind: ExprKind::Access(base, steps), .. } => (*base, steps),
            base => (base, Vec::new()),
        };
        loop {
            match self.peek() {
                Kind::Dot => {
                    self.next();
                    if self.peek() != Kind::Name {
                        return self.unexpected("a name");
                    }
                    steps.push(Access::Field(self.any_name()));
                }
                Kind::LeftBracket => {
                    self.next();
                    let index = self.expr()?;
                    if self.peek() == Kind::Colon {
                        let problem =
                            Problem::new(Code::I2, self.token().span, "there are no slices");
                        return self.fail(problem.hint("take parts of a list in an action"));
                    }
                    self.expect(Kind::RightBracket)?;
                    steps.push(Access::Index(index));
                }
                Kind::LeftParen => {
                    let problem =
                        Problem::new(Code::I2, self.token().span, "this cannot be called");
                    return self
                        .fail(problem.hint("only functions and actions can, by their name"));
                }
                _ => break,
            }
        }
        if steps.is_empty() {
            return Ok(base);
        }
        Ok(self.made(start, ExprKind::Access(Box::new(base), steps)))
    }

    fn primary(&mut self) -> Read<Expr> {
        let start = self.token();
        match start.kind {
            Kind::Int => self.int(),
            Kind::Float => self.float(),
            Kind::Str => {
                let literal = self.word().to_string();
                let value = unquoted(&literal, self.reading.dialect);
                self.next();
                Ok(self.made(start, ExprKind::Str(value, literal)))
            }
            Kind::At => {
                let action = self.action()?;
                Ok(self.made(start, ExprKind::Action(Box::new(action))))
            }
            Kind::LeftParen => {
                self.next();
                let inner = self.expr()?;
                if self.peek() == Kind::Comma {
                    let problem = Problem::new(Code::I2, self.token().span, "there are no tuples");
                    return self.fail(problem.hint("write a list: [a, b]"));
                }
                self.expect(Kind::RightParen)?;
                Ok(Expr { span: self.since(start), ..inner })
            }
            Kind::LeftBracket => {
                self.next();
                let items = self.entries(Kind::RightBracket, |parser| parser.expr())?;
                Ok(self.made(start, ExprKind::List(items)))
            }
            Kind::LeftBrace => {
                self.next();
                let entries = self.entries(Kind::RightBrace, |parser| {
                    let key = parser.expr()?;
                    parser.expect(Kind::Colon)?;
                    Ok((key, parser.expr()?))
                })?;
                Ok(self.made(start, ExprKind::Dict(entries)))
            }
            Kind::Name => self.named(),
            _ => self.unexpected("an expression"),
        }
    }

    fn named(&mut self) -> Read<Expr> {
        let start = self.token();
        let kind = match self.word() {
            "True" => ExprKind::Bool(true),
            "False" => ExprKind::Bool(false),
            "None" => ExprKind::None,
            word if super::RESERVED.contains(&word) => return self.unexpected("an expression"),
            "parallel" if self.peek_at(1) == Kind::LeftParen && !self.defines("parallel") => {
                self.next();
                self.next();
                let calls = self.entries(Kind::RightParen, |parser| parser.call())?;
                return Ok(self.made(start, ExprKind::Parallel(calls)));
            }
            _ if self.peek_at(1) == Kind::LeftParen => {
                let call = self.function_call()?;
                return Ok(self.made(start, ExprKind::Call(Box::new(call))));
            }
            word => ExprKind::Name(word.to_string()),
        };
        self.next();
        Ok(self.made(start, kind))
    }

    fn int(&mut self) -> Read<Expr> {
        let start = self.token();
        let value = int(self.word()).and_then(|value| {
            i64::try_from(value).map_err(|_| "the number does not fit into 64 bits")
        });
        match value {
            Ok(value) => {
                self.next();
                Ok(self.made(start, ExprKind::Int(value)))
            }
            Err(what) => self.fail(Problem::new(Code::I2, start.span, what)),
        }
    }

    fn float(&mut self) -> Read<Expr> {
        let start = self.token();
        let literal = self.word().to_string();
        match literal.parse::<f64>() {
            Ok(value) if value.is_finite() => {
                self.next();
                Ok(self.made(start, ExprKind::Float(value, literal)))
            }
            _ => self.fail(Problem::new(Code::I2, start.span, "the number is too large")),
        }
    }

    pub(super) fn defines(&self, name: &str) -> bool {
        self.defined.contains(&name)
    }

    fn made(&self, start: Token, kind: ExprKind) -> Expr {
        Expr { kind, span: self.since(start) }
    }
}
