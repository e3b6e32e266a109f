//! From tokens to a tree.
//!
//! Written by hand, one function for each construct of the grammar. A statement that cannot be read
//! is reported and left out, and reading goes on with the next line, so that all errors of a file
//! are found at once. Nesting is bounded: whatever comes in, the stack does not overflow.

mod call;
mod expression;
mod function;
mod policy;
mod statement;

use crate::Dialect;
use crate::ast::{Name, Tree};
use crate::errors::{Code, Problem, Span};
use crate::lexer::{Comment, Kind, Lexed, Token, lex};

/// How deep expressions and blocks may be nested, each for itself.
const DEEPEST: usize = 100;

/// Words that are never names of variables.
pub(crate) const RESERVED: [&str; 17] = [
    "fn", "if", "elif", "else", "for", "while", "try", "except", "return", "break", "continue",
    "in", "not", "and", "or", "True", "False",
];

/// A text as a tree, with what is wrong with it.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) tree: Tree,
    pub(crate) comments: Vec<Comment>,
    pub(crate) problems: Vec<Problem>,
}

/// How a text is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) dialect: Dialect,
    /// True when somebody said so: a guess does not change what an expression means.
    pub(crate) certain: bool,
}

pub(crate) fn parse(text: &str, reading: Reading) -> Parsed {
    let Lexed { tokens, comments, problems } = lex(text, reading.dialect);
    let defined = tokens.windows(2).filter(|pair| pair[0].text(text) == "fn");
    let defined = defined.map(|pair| pair[1].text(text)).collect();
    let mut unreadable: Vec<u32> = problems.iter().map(|problem| problem.span.start).collect();
    unreadable.sort_unstable();
    let mut parser = Parser {
        text,
        tokens,
        at: 0,
        problems,
        unreadable,
        reading,
        defined,
        nested: 0,
        blocks: 0,
    };
    let tree = parser.tree();
    Parsed { tree, comments, problems: parser.problems }
}

/// Reading a construct failed; the problem was reported.
struct Failed;

type Read<T> = Result<T, Failed>;

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    problems: Vec<Problem>,
    /// The places of what the lexer has reported.
    unreadable: Vec<u32>,
    reading: Reading,
    /// The names of all functions: `parallel(..)` and `sleep(..)` may be calls of them.
    defined: Vec<&'a str>,
    /// How deep the current expression is nested.
    nested: usize,
    /// How deep the current block is nested.
    blocks: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Kind {
        self.tokens[self.at].kind
    }

    fn peek_at(&self, ahead: usize) -> Kind {
        self.tokens.get(self.at + ahead).map_or(Kind::End, |token| token.kind)
    }

    fn token(&self) -> Token {
        self.tokens[self.at]
    }

    /// The text of the next token.
    fn word(&self) -> &'a str {
        self.token().text(self.text)
    }

    fn word_at(&self, ahead: usize) -> &'a str {
        self.tokens.get(self.at + ahead).map_or("", |token| token.text(self.text))
    }

    /// Takes the next token. The last one, the end of the file, stays.
    fn next(&mut self) -> Token {
        let token = self.token();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        token
    }

    fn eat(&mut self, kind: Kind) -> bool {
        let there = self.peek() == kind;
        if there {
            self.next();
        }
        there
    }

    fn is_word(&self, word: &str) -> bool {
        self.peek() == Kind::Name && self.word() == word
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let there = self.is_word(word);
        if there {
            self.next();
        }
        there
    }

    fn expect(&mut self, kind: Kind) -> Read<Token> {
        if self.peek() == kind {
            return Ok(self.next());
        }
        self.unexpected(&shown(kind))
    }

    fn expect_word(&mut self, word: &str) -> Read<Token> {
        if self.is_word(word) {
            return Ok(self.next());
        }
        self.unexpected(&format!("`{word}`"))
    }

    /// A name that can be that of a variable.
    fn name(&mut self, what: &str) -> Read<Name> {
        let reserved = RESERVED.contains(&self.word()) || self.word() == "None";
        if self.peek() == Kind::Name && reserved {
            let problem =
                Problem::new(Code::I2, self.token().span, format!("`{}` is reserved", self.word()));
            return self.fail(problem.hint(format!("choose another name for {what}")));
        }
        if self.peek() != Kind::Name {
            return self.unexpected(what);
        }
        Ok(self.any_name())
    }

    /// A name where no keyword could stand.
    fn any_name(&mut self) -> Name {
        let token = self.next();
        Name { text: token.text(self.text).to_string(), span: token.span }
    }

    /// The span of what was read since a token.
    fn since(&self, start: Token) -> Span {
        let last = self.at.checked_sub(1).map_or(start, |at| self.tokens[at]);
        start.span.to(last.span)
    }

    /// Reports what stands in the place of something else.
    fn unexpected<T>(&mut self, wanted: &str) -> Read<T> {
        let token = self.token();
        let found = match token.kind {
            Kind::Name | Kind::Int | Kind::Float | Kind::Quantity | Kind::Str => {
                let text: String = self.word().chars().take(40).collect();
                format!("`{text}`")
            }
            kind => shown(kind),
        };
        let problem =
            Problem::new(Code::I2, token.span, format!("expected {wanted}, found {found}"));
        let hint = self.habit();
        self.fail(problem.maybe_hint(hint))
    }

    /// What somebody who knows another language probably meant.
    fn habit(&self) -> Option<String> {
        let before = self.at.checked_sub(1).map(|at| self.tokens[at]);
        let word_before = before.map_or("", |token| token.text(self.text));
        let hint = match (word_before, self.peek()) {
            ("+" | "-" | "*" | "/" | "%" | "//", Kind::Assign) => "write `x = x + 1`",
            ("*", Kind::Star) => "there is no power operator",
            ("+", Kind::Plus) => "write `x = x + 1`",
            ("else", Kind::Name) if self.word() == "if" => "write `elif`",
            (_, Kind::Quantity) => "durations stand in brackets only; write seconds here",
            (_, Kind::Name) if self.word() == "is" => "write `==`",
            (_, Kind::Name) if matches!(self.word(), "if" | "for" | "lambda") => {
                "an expression has no conditions, loops or functions in it"
            }
            ("f", Kind::Str) => "there are no format strings; add texts with `+`",
            ("def" | "import" | "from" | "await" | "raise" | "async" | "with" | "class", _) => {
                return Some(foreign(word_before));
            }
            (_, Kind::Assign) => "`==` compares, `=` assigns to names only",
            _ => return None,
        };
        Some(hint.to_string())
    }

    fn fail<T>(&mut self, problem: Problem) -> Read<T> {
        self.problems.push(problem);
        Err(Failed)
    }

    /// Forgets what was reported since `before` about a stretch from `start` to here where the
    /// lexer has found something wrong: it is a consequence of that.
    fn forget_consequences(&mut self, before: usize, start: Span) {
        let end = self.token().span.end;
        let first = self.unreadable.partition_point(|place| *place < start.start);
        if self.unreadable.get(first).is_some_and(|place| *place <= end) {
            self.problems.truncate(before);
        }
    }

    /// The token that closes a bracket, as far as there is one in this statement.
    fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for (ahead, token) in self.tokens[open..].iter().enumerate() {
            match token.kind {
                Kind::LeftParen | Kind::LeftBracket | Kind::LeftBrace => depth += 1,
                Kind::RightParen | Kind::RightBracket | Kind::RightBrace => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return Some(open + ahead);
                    }
                }
                Kind::Newline | Kind::End => return None,
                _ => {}
            }
        }
        None
    }

    /// Goes to the end of the line, brackets or not.
    fn skip_line(&mut self) {
        while !matches!(self.peek(), Kind::Newline | Kind::End) {
            self.next();
        }
        self.eat(Kind::Newline);
    }

    /// Reads something that may be nested in itself.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        if self.nested == DEEPEST {
            let what = format!("expressions are nested more than {DEEPEST} levels deep");
            let problem = Problem::new(Code::I2, self.token().span, what);
            return self.fail(problem.hint("give parts of it names of their own"));
        }
        self.nested += 1;
        let result = read(self);
        self.nested -= 1;
        result
    }

    /// Entries between brackets, separated by commas; the last one may have a comma, too.
    fn entries<T>(
        &mut self,
        close: Kind,
        mut entry: impl FnMut(&mut Self) -> Read<T>,
    ) -> Read<Vec<T>> {
        let mut entries = Vec::new();
        while self.peek() != close {
            entries.push(entry(self)?);
            if !self.eat(Kind::Comma) {
                break;
            }
        }
        if self.peek() != close {
            return self.unexpected(&format!("`,` or {}", shown(close)));
        }
        self.next();
        Ok(entries)
    }
}

fn shown(kind: Kind) -> String {
    match kind {
        Kind::Name
        | Kind::Int
        | Kind::Float
        | Kind::Quantity
        | Kind::Str
        | Kind::Newline
        | Kind::Indent
        | Kind::Dedent
        | Kind::End => kind.shown().to_string(),
        sign => format!("`{}`", sign.shown()),
    }
}

fn foreign(word: &str) -> String {
    match word {
        "def" => "functions begin with `fn`".to_string(),
        "await" | "async" => format!("leave out `{word}`: every action is waited for"),
        "raise" => "an action fails by itself; there is no `raise`".to_string(),
        _ => format!("there is no `{word}`"),
    }
}
