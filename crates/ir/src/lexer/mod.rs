//! From text to tokens.
//!
//! Blocks are made of indentation, as in Python: the lexer turns the change of it into tokens. A
//! line ends its statement unless a bracket is open, or the next line begins with the policy of an
//! action. Errors do not end the work: what cannot be read is reported and left out.

mod number;
mod string;
mod token;

use crate::Dialect;
use crate::errors::{Code, Problem, Span};
pub(crate) use number::int;
use number::number;
use string::string;
pub(crate) use string::unquoted;
use token::SIGNS;
pub(crate) use token::{Comment, Kind, Token};

/// A text in tokens. The last one is [`Kind::End`].
#[derive(Debug)]
pub(crate) struct Lexed {
    pub(crate) tokens: Vec<Token>,
    pub(crate) comments: Vec<Comment>,
    pub(crate) problems: Vec<Problem>,
}

pub(crate) fn lex(text: &str, dialect: Dialect) -> Lexed {
    let mut lexer = Lexer {
        text,
        dialect,
        at: 0,
        open: Vec::new(),
        indents: vec![0],
        out: Lexed { tokens: Vec::new(), comments: Vec::new(), problems: Vec::new() },
    };
    lexer.run();
    lexer.out
}

/// How many blanks a tab stands for.
const TAB: usize = 4;

/// Words that begin a statement and never stand in brackets: where one begins a line, a bracket
/// before it was forgotten.
const STATEMENTS: [&str; 11] =
    ["fn", "for", "while", "if", "elif", "else", "try", "except", "return", "break", "continue"];

struct Lexer<'a> {
    text: &'a str,
    dialect: Dialect,
    at: usize,
    /// The brackets that are open.
    open: Vec<Token>,
    /// The widths of the blocks that are open.
    indents: Vec<usize>,
    out: Lexed,
}

impl Lexer<'_> {
    fn run(&mut self) {
        // A byte order mark says nothing.
        self.at = if self.text.starts_with('\u{feff}') { 3 } else { 0 };
        while self.at < self.text.len() {
            self.line();
        }
        for open in std::mem::take(&mut self.open) {
            self.never_closed(open);
        }
        if self.last().is_some_and(|kind| !matches!(kind, Kind::Newline | Kind::Dedent)) {
            self.push(Kind::Newline, self.at, self.at);
        }
        for _ in 1..self.indents.len() {
            self.push(Kind::Dedent, self.at, self.at);
        }
        self.push(Kind::End, self.at, self.at);
    }

    /// One line of the text.
    fn line(&mut self) {
        let start = self.at;
        let width = self.blanks();
        match self.peek() {
            None => return,
            Some('\n' | '\r' | '#') => {}
            Some(_) => self.begin(start, width),
        }
        while let Some(c) = self.peek() {
            match c {
                '\n' => {
                    self.at += 1;
                    break;
                }
                ' ' | '\t' | '\r' | '\u{c}' => self.at += 1,
                '\\' if self.rest(1).starts_with('\n') || self.rest(1).starts_with("\r\n") => {
                    self.joined();
                }
                '#' => self.comment(start),
                _ => self.token(c),
            }
        }
    }

    /// A backslash at the end of a line goes on with the next one.
    fn joined(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.find('\n').map_or(rest.len(), |end| end + 1);
    }

    /// The indentation of a line, and its end before the first token.
    fn blanks(&mut self) -> usize {
        let mut width = 0;
        while let Some(c) = self.peek() {
            match c {
                ' ' => width += 1,
                '\t' => width += TAB,
                '\u{c}' => {}
                _ => break,
            }
            self.at += 1;
        }
        width
    }

    /// A line with something in it begins: the line before it ends, and blocks with it.
    fn begin(&mut self, start: usize, width: usize) {
        if !self.open.is_empty() {
            if !self.begins_statement() {
                return;
            }
            for open in std::mem::take(&mut self.open) {
                self.never_closed(open);
            }
        }
        if self.out.tokens.is_empty() && width > 0 {
            let span = Span::new(start, self.at);
            let problem = Problem::new(Code::I1, span, "unexpected indentation");
            self.out.problems.push(problem.hint("the first line of a program is not indented"));
            self.indents = vec![width];
            return;
        }
        if self.goes_on(width) {
            return;
        }
        if !self.out.tokens.is_empty() {
            let end = self.out.tokens.last().map_or(0, |last| last.span.end as usize);
            self.push(Kind::Newline, end, end);
        }
        self.indent(start, width);
    }

    fn indent(&mut self, start: usize, width: usize) {
        let current = self.indents.last().copied().unwrap_or(0);
        if width > current {
            self.indents.push(width);
            self.push(Kind::Indent, start, self.at);
            return;
        }
        while self.indents.last().is_some_and(|open| *open > width) {
            self.indents.pop();
            self.push(Kind::Dedent, self.at, self.at);
        }
        if self.indents.last().copied().unwrap_or(0) < width {
            let span = Span::new(start, self.at);
            let problem =
                Problem::new(Code::I1, span, "the indentation matches no block around this line");
            let widths: Vec<String> = self.indents.iter().map(usize::to_string).collect();
            let hint = format!("blocks around it are indented by {} columns", widths.join(", "));
            self.out.problems.push(problem.hint(hint));
        }
    }

    /// True when this line begins with a policy of the action that the last one ended with.
    fn goes_on(&self, width: usize) -> bool {
        let after_call = matches!(self.last(), Some(Kind::RightParen | Kind::RightBracket));
        let inside = self.indents.last().is_some_and(|block| width >= *block);
        let Some(rest) = self.text[self.at..].strip_prefix('[').filter(|_| after_call && inside)
        else {
            return false;
        };
        // Names before an arrow, or one before a colon: no list looks like that.
        let listed = |c: char| is_in_name(c) || c.is_whitespace() || "(),.".contains(c);
        let names = rest.len() - rest.trim_start_matches(listed).len();
        let (names, behind) = rest.split_at(names);
        let one = !names.trim().is_empty() && names.trim().chars().all(is_in_name);
        behind.starts_with("->") || (one && behind.starts_with(':'))
    }

    fn begins_statement(&self) -> bool {
        let rest = &self.text[self.at..];
        let word = &rest[..rest.len() - rest.trim_start_matches(is_in_name).len()];
        // As the name of an argument, `if=1`, it begins nothing.
        let after = rest[word.len()..].trim_start();
        let argument = after.starts_with('=') && !after.starts_with("==");
        STATEMENTS.contains(&word) && !argument
    }

    fn comment(&mut self, line: usize) {
        let start = self.at;
        let rest = &self.text[start..];
        self.at += rest.find('\n').unwrap_or(rest.len());
        let end = start + self.text[start..self.at].trim_end().len();
        let alone = self.text[line..start].trim().is_empty();
        self.out.comments.push(Comment { span: Span::new(start, end), alone });
    }

    fn token(&mut self, c: char) {
        let start = self.at;
        if c.is_alphabetic() || c == '_' {
            let rest = &self.text[start..];
            self.at += rest.len() - rest.trim_start_matches(is_in_name).len();
            self.push(Kind::Name, start, self.at);
        } else if c.is_ascii_digit() || self.is_fraction() {
            let (kind, length) = number(&self.text[start..]);
            self.at += length;
            self.push(kind, start, self.at);
        } else if c == '"' || c == '\'' {
            let (length, problems) = string(&self.text[start..], self.dialect);
            self.at += length;
            let moved = |problem: Problem| problem.moved(start);
            self.out.problems.extend(problems.into_iter().map(moved));
            self.push(Kind::Str, start, self.at);
        } else if let Some((sign, kind)) =
            SIGNS.iter().find(|(sign, _)| self.text[start..].starts_with(sign))
        {
            self.at += sign.len();
            self.push(*kind, start, self.at);
            self.bracket(*kind);
        } else {
            self.unexpected(c);
        }
    }

    /// `.5`, where the dot stands alone.
    fn is_fraction(&self) -> bool {
        let digit = self.rest(1).starts_with(|c: char| c.is_ascii_digit());
        let belongs = self.out.tokens.last().is_some_and(|last| {
            let touches = last.span.end as usize == self.at;
            let ends = last.kind.closes() || matches!(last.kind, Kind::Name | Kind::Str);
            touches && ends
        });
        self.text[self.at..].starts_with('.') && digit && !belongs
    }

    /// Keeps count of brackets; a line does not end while one is open.
    fn bracket(&mut self, kind: Kind) {
        let Some(token) = self.out.tokens.last().copied() else { return };
        if kind.closed_by().is_some() {
            self.open.push(token);
        } else if kind.closes() {
            match self.open.pop() {
                Some(open) if open.kind.closed_by() == Some(kind) => {}
                Some(open) => {
                    let closer = open.kind.closed_by().map_or("", Kind::shown);
                    let what = format!("`{}` is closed by `{}`", open.kind.shown(), kind.shown());
                    let problem = Problem::new(Code::I1, token.span, what);
                    self.out.problems.push(problem.hint(format!("write `{closer}`")));
                }
                None => {
                    let what = format!("`{}` closes nothing", kind.shown());
                    self.out.problems.push(Problem::new(Code::I1, token.span, what));
                }
            }
        }
    }

    fn never_closed(&mut self, open: Token) {
        let what = format!("`{}` is never closed", open.kind.shown());
        self.out.problems.push(Problem::new(Code::I1, open.span, what));
    }

    /// Reports a character that means nothing, with those like it behind it.
    fn unexpected(&mut self, c: char) {
        let start = self.at;
        let rest = &self.text[start..];
        let meaningless = |c: char| {
            !c.is_whitespace() && !is_in_name(c) && !"\"'#@.,:=()[]{}+-*/%<>\\".contains(c)
        };
        let end = rest.find(|c| !meaningless(c)).unwrap_or(rest.len());
        let end = if end == 0 { c.len_utf8() } else { end };
        self.at += end;
        let found: String = rest[..end].chars().take(20).collect();
        let hint = match found.as_str() {
            ";" => Some("write one statement per line"),
            "&&" | "&" => Some("write `and`"),
            "||" | "|" => Some("write `or`"),
            "!" => Some("write `not`"),
            _ => None,
        };
        let span = Span::new(start, self.at);
        let problem = Problem::new(Code::I1, span, format!("unexpected character {found:?}"));
        self.out.problems.push(problem.maybe_hint(hint.map(str::to_string)));
    }

    fn last(&self) -> Option<Kind> {
        self.out.tokens.last().map(|token| token.kind)
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    /// What follows in some bytes.
    fn rest(&self, skip: usize) -> &str {
        self.text.get(self.at + skip..).unwrap_or("")
    }

    fn push(&mut self, kind: Kind, start: usize, end: usize) {
        self.out.tokens.push(Token { kind, span: Span::new(start, end) });
    }
}

pub(crate) fn is_in_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
