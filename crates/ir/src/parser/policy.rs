//! Brackets behind an action: found here, read by the dialect `rappel_ir` of the core.

use resurgam_core::retry::dialect::{Bracket, Fallback, is_bounded, parse_bracket};

use super::{Failed, Parser, Read};
use crate::ast::Policy;
use crate::errors::{Code, Problem, Span};
use crate::lexer::Kind;

impl Parser<'_> {
    pub(super) fn policies(&mut self) -> Read<Vec<Policy>> {
        let mut policies = Vec::new();
        let mut failed = false;
        while self.peek() == Kind::LeftBracket {
            if self.is_index() {
                break;
            }
            let policy = match self.is_fallback_value() {
                true => self.fallback_value(),
                false => self.policy(),
            };
            match policy {
                Ok(policy) => policies.push(policy),
                Err(Failed) => failed = true,
            }
        }
        if failed {
            return Err(Failed);
        }
        self.some_time(&policies)?;
        Ok(policies)
    }

    /// `@f()[0]`: a number, a text or a name alone is no policy.
    fn is_index(&self) -> bool {
        let fields = ["retry", "timeout", "backoff", "timeout_retry", "gate", "fallback"];
        let field = fields.contains(&self.word_at(1));
        let simple = matches!(self.peek_at(1), Kind::Int | Kind::Str | Kind::Name) && !field;
        let negative = self.peek_at(1) == Kind::Minus && self.peek_at(2) == Kind::Int;
        (simple && self.peek_at(2) == Kind::RightBracket)
            || (negative && self.peek_at(3) == Kind::RightBracket)
    }

    /// `[fallback: ..]` with anything but the name of an action alone.
    fn is_fallback_value(&self) -> bool {
        self.word_at(1) == "fallback"
            && self.peek_at(2) == Kind::Colon
            && self.peek_at(3) != Kind::At
    }

    fn fallback_value(&mut self) -> Read<Policy> {
        let (open, start) = (self.at, self.next());
        self.next();
        self.next();
        let value = self.expr().and_then(|value| {
            self.expect(Kind::RightBracket)?;
            Ok(value)
        });
        if value.is_err()
            && let Some(close) = self.closing(open)
        {
            self.at = close + 1;
        }
        let bracket = Bracket::Fallback(Fallback::Value(serde_json::Value::Null));
        let (value, text) = (Some(value?), String::new());
        Ok(Policy { bracket, value, text, span: self.since(start) })
    }

    fn policy(&mut self) -> Read<Policy> {
        let open = self.at;
        let start = self.next();
        let mut depth = 1;
        while depth > 0 {
            match self.peek() {
                Kind::LeftBracket | Kind::LeftParen | Kind::LeftBrace => depth += 1,
                Kind::RightBracket | Kind::RightParen | Kind::RightBrace => depth -= 1,
                // The lexer has reported that it is never closed.
                Kind::Newline | Kind::End => return Err(Failed),
                _ => {}
            }
            self.next();
        }
        let span = self.since(start);
        let bare = self.without_comments(open, span);
        match parse_bracket(&bare) {
            Ok(bracket) => Ok(Policy { bracket, value: None, text: self.spaced(open), span }),
            Err(bad) => {
                let at = span.start as usize + bad.at;
                let inside = |token: &&crate::lexer::Token| token.span.start as usize >= at;
                let place = self.tokens[open..self.at].iter().find(inside);
                let place = place.map_or(span, |token| token.span);
                let (message, hint) = match bad.message.split_once("; ") {
                    Some((message, hint)) => (message.to_string(), Some(hint.to_string())),
                    None => (bad.message, None),
                };
                self.fail(Problem::new(Code::I5, place, message).maybe_hint(hint))
            }
        }
    }

    /// The text of a bracket, comments blanked out, so that places in it stay what they are.
    fn without_comments(&self, open: usize, span: Span) -> String {
        let mut bare = " ".repeat((span.end - span.start) as usize).into_bytes();
        for token in &self.tokens[open..self.at] {
            let at = (token.span.start - span.start) as usize;
            let text = token.text(self.text).as_bytes();
            bare[at..at + text.len()].copy_from_slice(text);
        }
        String::from_utf8(bare).unwrap_or_default()
    }

    /// The bracket as it was written, with the blanks where they belong.
    fn spaced(&self, open: usize) -> String {
        let mut out = String::new();
        let mut before = Kind::LeftBracket;
        for token in &self.tokens[open..self.at] {
            let wants_blank = match (before, token.kind) {
                (Kind::Comma, Kind::RightBracket | Kind::RightParen) => {
                    out.pop();
                    false
                }
                (Kind::Comma | Kind::Colon | Kind::Arrow, _) | (_, Kind::Arrow) => true,
                // `10s linear`, `pause 2h`
                (_, Kind::Name) => {
                    !matches!(before, Kind::LeftBracket | Kind::LeftParen | Kind::Dot | Kind::At)
                }
                (Kind::Name, Kind::Int | Kind::Float | Kind::Quantity) => true,
                _ => false,
            };
            if wants_blank {
                out.push(' ');
            }
            out.push_str(token.text(self.text));
            before = token.kind;
        }
        out
    }

    /// A timeout of zero bounds nothing, and is accepted only beside one that does.
    fn some_time(&mut self, policies: &[Policy]) -> Read<()> {
        let brackets: Vec<Bracket> = policies.iter().map(|p| p.bracket.clone()).collect();
        let zero = policies
            .iter()
            .find(|policy| matches!(policy.bracket, Bracket::Timeout(time) if time.is_zero()));
        match zero {
            Some(zero) if !is_bounded(&brackets) => {
                let problem = Problem::new(Code::I5, zero.span, "timeout: 0 leaves no time");
                self.fail(problem.hint("leave it out, or write a time above 0"))
            }
            _ => Ok(()),
        }
    }
}
