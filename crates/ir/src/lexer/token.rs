//! Tokens: the words of a program.

use crate::errors::Span;

/// What a token is. Keywords are names: which of them mean something depends on the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Name,
    Int,
    Float,
    /// A number with letters behind it: `30s`.
    Quantity,
    Str,
    Newline,
    Indent,
    Dedent,
    End,
    At,
    Dot,
    Comma,
    Colon,
    Assign,
    Arrow,
    LeftParen,
    RightParen,
    LeftBracket,
    RightBracket,
    LeftBrace,
    RightBrace,
    Plus,
    Minus,
    Star,
    Slash,
    DoubleSlash,
    Percent,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// Operators and punctuation, the longest first.
pub(super) const SIGNS: [(&str, Kind); 24] = [
    ("->", Kind::Arrow),
    ("//", Kind::DoubleSlash),
    ("==", Kind::Equal),
    ("!=", Kind::NotEqual),
    ("<=", Kind::LessEqual),
    (">=", Kind::GreaterEqual),
    ("<", Kind::Less),
    (">", Kind::Greater),
    ("=", Kind::Assign),
    ("@", Kind::At),
    (".", Kind::Dot),
    (",", Kind::Comma),
    (":", Kind::Colon),
    ("(", Kind::LeftParen),
    (")", Kind::RightParen),
    ("[", Kind::LeftBracket),
    ("]", Kind::RightBracket),
    ("{", Kind::LeftBrace),
    ("}", Kind::RightBrace),
    ("+", Kind::Plus),
    ("-", Kind::Minus),
    ("*", Kind::Star),
    ("/", Kind::Slash),
    ("%", Kind::Percent),
];

impl Kind {
    /// The token in an error message.
    pub(crate) fn shown(self) -> &'static str {
        match self {
            Kind::Name => "a name",
            Kind::Int | Kind::Float | Kind::Quantity => "a number",
            Kind::Str => "a string",
            Kind::Newline => "the end of the line",
            Kind::Indent => "an indented block",
            Kind::Dedent => "the end of the block",
            Kind::End => "the end of the file",
            sign => SIGNS.iter().find(|(_, kind)| *kind == sign).map_or("", |(text, _)| text),
        }
    }

    /// True when an expression can begin with it.
    pub(crate) fn begins_expression(self) -> bool {
        matches!(
            self,
            Kind::Name
                | Kind::Int
                | Kind::Float
                | Kind::Str
                | Kind::At
                | Kind::LeftParen
                | Kind::LeftBracket
                | Kind::LeftBrace
                | Kind::Minus
        )
    }

    /// What closes this bracket.
    pub(super) fn closed_by(self) -> Option<Kind> {
        match self {
            Kind::LeftParen => Some(Kind::RightParen),
            Kind::LeftBracket => Some(Kind::RightBracket),
            Kind::LeftBrace => Some(Kind::RightBrace),
            _ => None,
        }
    }

    pub(super) fn closes(self) -> bool {
        matches!(self, Kind::RightParen | Kind::RightBracket | Kind::RightBrace)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) span: Span,
}

impl Token {
    pub(crate) fn text(self, source: &str) -> &str {
        &source[self.span.start as usize..self.span.end as usize]
    }
}

/// A comment, without its `#` and the blanks around it.
#[derive(Clone, Debug)]
pub(crate) struct Comment {
    pub(crate) span: Span,
    /// True when nothing else stands in its line.
    pub(crate) alone: bool,
}
