//! What is wrong with a program, for people and for programs.
//!
//! Everything that is wrong with a file is one value: [`Errors`]. It prints each error with its
//! line and a marker under the place, and becomes JSON for editors.

use std::fmt;
use std::sync::Arc;

pub(crate) use resurgam_core::Code;
use serde_json::{Value, json};

/// How many errors of a file are kept. A file with more of them is not a program at all.
const MOST: usize = 1_000;

/// How many characters of a very long line are shown around the place.
const SHOWN: usize = 160;

/// A stretch of a program's text, in bytes.
///
/// All spans are equal: two trees are the same when they say the same, wherever it stands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    /// Where it begins.
    pub(crate) start: u32,
    /// Where it ends.
    pub(crate) end: u32,
}

impl PartialEq for Span {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Self {
        let small = |place: usize| u32::try_from(place).unwrap_or(u32::MAX);
        Span { start: small(start), end: small(end) }
    }

    /// From the beginning of this one to the end of another.
    pub(crate) fn to(self, end: Span) -> Self {
        Span { start: self.start, end: end.end.max(self.end) }
    }
}

/// One thing that is wrong, by its place in the text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Problem {
    pub(crate) code: Code,
    pub(crate) span: Span,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Problem {
    pub(crate) fn new(code: Code, span: Span, message: impl Into<String>) -> Self {
        Problem { code, span, message: message.into(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn maybe_hint(mut self, hint: Option<String>) -> Self {
        self.hint = self.hint.or(hint);
        self
    }
}

/// Everything that is wrong with a program, in the order of its text. Never empty.
#[derive(Clone, Debug)]
pub struct Errors {
    file: String,
    text: Arc<str>,
    problems: Vec<Problem>,
    left_out: usize,
}

/// One thing that is wrong with a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The code to look it up by.
    pub code: Code,
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The line itself; of a very long one the part around the place.
    pub source: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The marker: how many characters of `source` come before it, and how many it covers.
    marker: (usize, usize),
}

impl Errors {
    /// `Ok` when there is nothing wrong.
    pub(crate) fn check(
        file: &str,
        text: &Arc<str>,
        mut problems: Vec<Problem>,
    ) -> Result<(), Errors> {
        if problems.is_empty() {
            return Ok(());
        }
        problems.sort_by_key(|problem| problem.span.start);
        problems.dedup_by_key(|problem| (problem.span.start, problem.message.clone()));
        let left_out = problems.len().saturating_sub(MOST);
        problems.truncate(MOST);
        Err(Errors { file: file.to_string(), text: text.clone(), problems, left_out })
    }

    /// The errors in order.
    pub fn iter(&self) -> impl Iterator<Item = Error> {
        let lines = Lines::of(&self.text);
        self.problems.iter().map(move |problem| self.error(problem, &lines))
    }

    fn error(&self, problem: &Problem, lines: &Lines) -> Error {
        let Place { line, column, source } = lines.place(&self.text, problem.span.start as usize);
        let marked = problem.span.end.saturating_sub(problem.span.start) as usize;
        let rest = source.chars().count().saturating_sub(column - 1);
        let bytes: usize = source.chars().skip(column - 1).map(char::len_utf8).sum();
        // Bytes become characters; what goes on in the next line is marked to the end of this one.
        let width = if marked >= bytes {
            rest
        } else {
            let start = problem.span.start as usize;
            self.text.get(start..start + marked).map_or(1, |text| text.chars().count())
        };
        let skip = if rest + column > SHOWN { (column - 1).saturating_sub(SHOWN / 2) } else { 0 };
        Error {
            code: problem.code,
            file: self.file.clone(),
            line,
            column,
            source: source.chars().skip(skip).take(SHOWN).collect(),
            message: problem.message.clone(),
            hint: problem.hint.clone(),
            marker: (column - 1 - skip, width.clamp(1, SHOWN)),
        }
    }

    /// The errors as `{"errors":[{"file","line","column","source","message","hint","code"}]}`.
    pub fn to_json(&self) -> Value {
        let errors: Vec<Value> = self.iter().map(|error| error.to_json()).collect();
        json!({ "errors": errors })
    }
}

impl Error {
    /// The error as an object.
    pub fn to_json(&self) -> Value {
        json!({
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "source": self.source,
            "message": self.message,
            "hint": self.hint,
            "code": self.code,
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Error { code, file, line, column, source, message, hint, marker } = self;
        let margin = " ".repeat(line.to_string().len());
        // A tab stays a tab, so that the marker stands where the place is.
        let blank = |c: char| if c == '\t' { '\t' } else { ' ' };
        let before: String = source.chars().take(marker.0).map(blank).collect();
        writeln!(f, "error: {code} {message}")?;
        writeln!(f, "{margin}--> {file}:{line}:{column}")?;
        writeln!(f, "{margin} |")?;
        writeln!(f, "{line} | {source}")?;
        write!(f, "{margin} | {before}{}", "^".repeat(marker.1))?;
        match hint {
            Some(hint) => write!(f, "\n{margin} = {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.iter().enumerate() {
            write!(f, "{}{error}", if index == 0 { "" } else { "\n\n" })?;
        }
        match self.left_out {
            0 => Ok(()),
            more => write!(f, "\n\nand {more} more errors"),
        }
    }
}

impl std::error::Error for Errors {}

/// Where the lines of a text begin.
#[derive(Clone, Debug)]
pub(crate) struct Lines(Vec<usize>);

pub(crate) struct Place<'a> {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) source: &'a str,
}

impl Lines {
    pub(crate) fn of(text: &str) -> Self {
        let ends = text.match_indices('\n').map(|(end, _)| end + 1);
        Lines(std::iter::once(0).chain(ends).collect())
    }

    /// The number of the line that a place is in, from 1.
    pub(crate) fn number(&self, place: usize) -> usize {
        self.0.partition_point(|start| *start <= place).max(1)
    }

    /// Where a line begins.
    pub(crate) fn start(&self, number: usize) -> usize {
        self.0[number - 1]
    }

    pub(crate) fn place<'a>(&self, text: &'a str, place: usize) -> Place<'a> {
        let mut place = place.min(text.len());
        while !text.is_char_boundary(place) {
            place -= 1;
        }
        let line = self.number(place);
        let start = self.start(line);
        let source = text[start..].lines().next().unwrap_or("");
        let column = text[start..place].chars().count() + 1;
        Place { line, column, source }
    }
}
