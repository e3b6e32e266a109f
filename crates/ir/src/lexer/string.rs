//! Strings and their escapes.
//!
//! In Rappel a backslash in double quotes is a backslash. In Waymark, and in single quotes, it
//! begins an escape.

use crate::Dialect;
use crate::errors::{Code, Problem, Span};

const OPEN: &str = "the string does not end in its line";

impl Problem {
    /// Moves the problem, for a text that begins later.
    pub(super) fn moved(mut self, by: usize) -> Self {
        let (start, end) = (self.span.start as usize + by, self.span.end as usize + by);
        self.span = Span::new(start, end);
        self
    }
}

/// How long the string is that a text begins with, quotes included, and what is wrong with it.
pub(super) fn string(text: &str, dialect: Dialect) -> (usize, Vec<Problem>) {
    let quote = if text.starts_with('\'') { '\'' } else { '"' };
    let escapes = has_escapes(quote, dialect);
    let mut skip = false;
    let mut length = text.len();
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '\n' | '\r' => {
                length = at;
                break;
            }
            _ if skip => skip = false,
            '\\' if escapes => skip = true,
            c if c == quote => return (at + 1, check(&text[..=at], escapes)),
            _ => {}
        }
    }
    let hint = format!("write {quote} at its end");
    (length, vec![Problem::new(Code::I1, Span::new(0, length), OPEN).hint(hint)])
}

/// The text that a string stands for. What is wrong with it was reported when it was read.
pub(crate) fn unquoted(literal: &str, dialect: Dialect) -> String {
    let quote = if literal.starts_with('\'') { '\'' } else { '"' };
    let inner = literal.strip_prefix(quote).unwrap_or(literal);
    let inner = inner.strip_suffix(quote).unwrap_or(inner);
    if !has_escapes(quote, dialect) {
        return inner.to_string();
    }
    unescape(inner, &mut |_, _| {})
}

fn has_escapes(quote: char, dialect: Dialect) -> bool {
    quote == '\'' || dialect == Dialect::Waymark
}

fn check(literal: &str, escapes: bool) -> Vec<Problem> {
    let mut problems = Vec::new();
    if escapes {
        let inner = &literal[1..literal.len() - 1];
        unescape(inner, &mut |at, length| {
            let span = Span::new(at + 1, at + 1 + length);
            let problem = Problem::new(Code::I1, span, "unknown escape");
            let hint = "known are \\n \\t \\r \\0 \\b \\f \\u00e9 \\\\ \\\" and \\'";
            problems.push(problem.hint(hint));
        });
    }
    problems
}

/// Replaces the escapes of a text. `bad` hears of those that mean nothing: where, and how long.
fn unescape(text: &str, bad: &mut dyn FnMut(usize, usize)) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        if c != '\\' {
            out.push(c);
            at += c.len_utf8();
            continue;
        }
        let (meaning, length) = escape(&text[at..]);
        match meaning {
            Some(meaning) => out.push(meaning),
            None => bad(at, length),
        }
        at += length;
    }
    out
}

/// What the escape at the beginning of a text means, and how long it is.
fn escape(text: &str) -> (Option<char>, usize) {
    let Some(c) = text.chars().nth(1) else { return (None, 1) };
    let simple = match c {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        '0' => '\0',
        'b' => '\u{8}',
        'f' => '\u{c}',
        '\\' | '"' | '\'' => c,
        'u' => return unicode(text),
        _ => return (None, 1 + c.len_utf8()),
    };
    (Some(simple), 2)
}

/// `\u00e9`, or a pair such as `\ud83d\ude00` for what has no number of four digits.
fn unicode(text: &str) -> (Option<char>, usize) {
    let hex = |at: usize| {
        let digits = text.get(at..at + 4)?;
        let plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        u32::from_str_radix(digits, 16).ok().filter(|_| plain)
    };
    let high = match hex(2) {
        None => return (None, 2),
        Some(high @ 0xd800..0xdc00) => high,
        Some(unit) => return (char::from_u32(unit), 6),
    };
    let low = hex(8).filter(|low| text[6..].starts_with("\\u") && (0xdc00..0xe000).contains(low));
    match low {
        Some(low) => (char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)), 12),
        None => (None, 6),
    }
}
