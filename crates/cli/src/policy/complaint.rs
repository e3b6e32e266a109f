//! Complaints about a policy's text, for people and for programs.
//!
//! For people, a complaint shows the file, the line and what is wrong there:
//!
//! ```text
//! policy.json:3:3
//!   3 |   "max_attempts": 0,
//!     |   ^^^^^^^^^^^^^^^^^
//! error: P3 max_attempts: 0 is not allowed; it counts the first attempt. ...
//! ```
//!
//! Text from a file may hold anything, also sequences that a terminal obeys: control characters
//! are shown as a replacement.

use std::fmt::Write as _;
use std::ops::Range;

use resurgam_core::Code;
pub(crate) use resurgam_policy::printable;
use serde::Serialize;

use crate::exit::Exit;
use crate::style::{ERROR, FAINT, PLACE};

/// One thing that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Complaint {
    #[serde(skip)]
    pub(crate) file: String,
    pub(crate) code: Code,
    /// The field it is about; empty for the whole.
    pub(crate) path: String,
    pub(crate) message: String,
    #[serde(flatten)]
    pub(crate) spot: Spot,
    #[serde(skip)]
    excerpt: Option<Excerpt>,
}

/// Line and column, both from 1 and both absent where they are not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Spot {
    pub(crate) line: Option<usize>,
    pub(crate) column: Option<usize>,
}

/// A text whose lines are found without counting them again each time.
#[derive(Debug)]
pub(crate) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
        let newlines = text.match_indices('\n').map(|(at, _)| at + 1);
        Lines { text, starts: std::iter::once(0).chain(newlines).collect() }
    }

    /// The number of the line around a place, from 1, and where it begins.
    fn around(&self, place: usize) -> (usize, usize) {
        let number = self.starts.partition_point(|start| *start <= place);
        (number, self.starts[number - 1])
    }

    /// The place of a line and a column, both from 1, in bytes.
    pub(crate) fn place(&self, line: usize, column: usize) -> usize {
        let start = self.starts.get(line.saturating_sub(1)).copied().unwrap_or(self.text.len());
        let before = self.text[start..].chars().take(column.saturating_sub(1));
        start + before.map(char::len_utf8).sum::<usize>()
    }

    /// The line around a place; of a very long one the part around it, as thousands of mistakes
    /// in one line would repeat it thousands of times.
    pub(crate) fn source(&self, place: usize) -> String {
        let place = boundary(self.text, place);
        let (_, start) = self.around(place);
        let line = self.text[start..].lines().next().unwrap_or_default();
        let at = (place - start).min(line.len());
        let from = if line.len() > SOURCE { before(line, at, SOURCE / 2) } else { line };
        from.chars().take(SOURCE).collect()
    }
}

/// The rest of a line from this many characters before a byte of it.
fn before(line: &str, at: usize, characters: usize) -> &str {
    let mut starts = line[..at].char_indices().rev().map(|(start, _)| start);
    let start = match characters.checked_sub(1) {
        Some(last) => starts.nth(last).unwrap_or(0),
        None => at,
    };
    &line[start..]
}

/// The part of a line that is shown, and what is marked in it; counted in characters.
#[derive(Clone, Debug, PartialEq)]
struct Excerpt {
    text: String,
    mark: Range<usize>,
}

/// Why a file was not accepted.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) complaints: Vec<Complaint>,
    pub(crate) exit: Exit,
}

/// The most characters of a line that are shown.
const WIDTH: usize = 100;

/// The most characters of a line that programs are told.
const SOURCE: usize = 200;

/// How much of a longer line is shown before what is marked.
const BEFORE: usize = 30;

impl Complaint {
    /// A complaint about a whole file.
    pub(crate) fn new(code: Code, file: &str, message: impl Into<String>) -> Self {
        Complaint {
            code,
            file: file.to_string(),
            path: String::new(),
            message: message.into(),
            spot: Spot::default(),
            excerpt: None,
        }
    }

    /// Makes it a complaint about the field that a path leads to.
    pub(crate) fn about(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Adds the place in the file's text.
    pub(crate) fn at(self, text: &str, span: &Range<usize>) -> Self {
        self.within(&Lines::of(text), span)
    }

    /// Adds the place in a text that many complaints are about.
    pub(crate) fn within(mut self, lines: &Lines<'_>, span: &Range<usize>) -> Self {
        let text = lines.text;
        let start = boundary(text, span.start);
        let (number, line_start) = lines.around(start);
        let line = text[line_start..].lines().next().unwrap_or_default();
        let before = text[line_start..start].chars().count();
        let marked = text[start..boundary(text, span.end.max(start))].lines().next();
        let marked = marked.unwrap_or_default().chars().count().max(1);
        self.spot = Spot { line: Some(number), column: Some(before + 1) };
        self.excerpt = Some(Excerpt::of(line, start - line_start, before..before + marked));
        self
    }

    /// The complaint for people, with colours for a terminal.
    pub(crate) fn to_text(&self) -> String {
        let mut out = String::new();
        let file = printable(&self.file);
        if let (Some(excerpt), Spot { line: Some(line), column: Some(column) }) =
            (&self.excerpt, self.spot)
        {
            let _ = writeln!(out, "{PLACE}{file}:{line}:{column}{PLACE:#}");
            let margin = " ".repeat(line.to_string().len());
            let skip = " ".repeat(excerpt.mark.start);
            let mark = "^".repeat(excerpt.mark.len());
            let _ = writeln!(out, "  {FAINT}{line} |{FAINT:#} {}", excerpt.text);
            let _ = writeln!(out, "  {FAINT}{margin} |{FAINT:#} {skip}{ERROR}{mark}{ERROR:#}");
        }
        let _ = writeln!(out, "{ERROR}error:{ERROR:#} {} {}", self.code, printable(&self.message));
        out
    }
}

impl Excerpt {
    /// A line, or the part of a long one around what is marked, which begins at this byte.
    fn of(line: &str, at: usize, mark: Range<usize>) -> Self {
        const CUT: &str = "...";
        let length = line.chars().count();
        let from = if length > WIDTH { mark.start.saturating_sub(BEFORE) } else { 0 };
        let shown = length.saturating_sub(from).min(WIDTH);
        let lead = if from > 0 { CUT } else { "" };
        let tail = if from + shown < length { CUT } else { "" };
        let part: String = before(line, at, mark.start - from).chars().take(shown).collect();
        let start = lead.len() + mark.start - from;
        let end = (start + mark.len()).min(lead.len() + shown).max(start + 1);
        Excerpt { text: format!("{lead}{}{tail}", printable(&part)), mark: start..end }
    }
}

impl Refusal {
    /// Input that has to be changed by those who wrote it; complaints in the order of the text.
    pub(crate) fn bad_input(mut complaints: Vec<Complaint>) -> Self {
        let place = |spot: Spot| (spot.line.is_none(), spot.line, spot.column);
        complaints.sort_by_key(|complaint| place(complaint.spot));
        Refusal { complaints, exit: Exit::BadInput }
    }

    /// All complaints for people, with an empty line between two of them.
    pub(crate) fn to_text(&self) -> String {
        self.complaints.iter().map(Complaint::to_text).collect::<Vec<_>>().join("\n")
    }
}

/// The nearest place at or before `at` where the text can be cut.
fn boundary(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    fn shown(text: &str, span: Range<usize>) -> String {
        let complaint = Complaint::new(Code::P1, "p.json", "wrong").at(text, &span);
        anstream::adapter::strip_str(&complaint.to_text()).to_string()
    }

    #[test]
    fn the_line_is_shown_with_a_mark_below() {
        assert_eq!(
            shown("{\n\t\"é\": 1, \"b\": 2\n}", 12..18),
            "p.json:2:10\n  2 |  \"é\": 1, \"b\": 2\n    |          ^^^^^^\nerror: P1 wrong\n"
        );
    }

    #[test]
    fn a_span_over_several_lines_is_marked_on_its_first() {
        assert_eq!(shown("[\n 1]", 0..5), "p.json:1:1\n  1 | [\n    | ^\nerror: P1 wrong\n");
    }

    #[test]
    fn a_long_line_is_cut_around_the_mark() {
        let text = format!("{}X{}", "a".repeat(500), "b".repeat(500));
        let shown = shown(&text, 500..501);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "p.json:1:501");
        assert!(lines[1].contains("...aaa") && lines[1].ends_with("bbb..."), "{shown}");
        assert_eq!(lines[1].find('X'), lines[2].find('^'));
    }

    #[test]
    fn a_place_at_the_very_end_or_beyond_is_shown_at_the_end() {
        for span in [4..4, 9..12] {
            assert_eq!(
                shown("{\"a\"", span),
                "p.json:1:5\n  1 | {\"a\"\n    |     ^\nerror: P1 wrong\n"
            );
        }
        assert_eq!(shown("", 0..0), "p.json:1:1\n  1 | \n    | ^\nerror: P1 wrong\n");
    }

    #[test]
    fn a_terminal_is_not_steered_by_what_a_file_holds() {
        let complaint = Complaint::new(Code::P1, "p\u{1b}[2J", "\u{7}").at("\u{1b}[31m", &(0..5));
        let text = anstream::adapter::strip_str(&complaint.to_text()).to_string();
        assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
    }
}
