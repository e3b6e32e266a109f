//! Reads a policy from what the command line names: a file, standard input or a preset.
//!
//! Whatever is wrong ends up as complaints with the file's name and, where there is one, the
//! place: about the file itself, about its syntax, about what it says. The first two stop at
//! once; of the last all are reported.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

use resurgam_core::Code;
use resurgam_core::config::{Problem, Problems, nearest};
use resurgam_core::gate::Gate;
use resurgam_core::retry::dialect::Dialect;
use resurgam_core::retry::{CheckedPolicy, preset};
use serde_json::{Value, json};

use super::complaint::{Complaint, Refusal};
use super::locate::{self, Place};
use super::toml_text;
use crate::exit::Exit;

/// The largest input that is read. A policy is written by hand; what is larger is something else.
const MOST_BYTES: usize = 1 << 20;

/// How many problems of one file are shown. Nobody makes more by hand.
const MOST_COMPLAINTS: usize = 200;

/// A policy that was read and makes sense.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// What the command line named, for messages.
    pub(crate) name: String,
    pub(crate) policy: CheckedPolicy,
    /// What was accepted and has no effect.
    pub(crate) notes: Vec<String>,
}

/// Reads the policy that `file` names: a path, `-` for standard input, or a preset.
pub(crate) fn load(file: &Path, dialect: Dialect) -> Result<Loaded, Refusal> {
    Text::read(file, dialect)?.load(dialect)
}

/// Reads the settings of a gate from a file, or from standard input.
pub(crate) fn load_gate(file: &Path) -> Result<Gate, Refusal> {
    let stdin = file == Path::new("-");
    let name = if stdin { "<stdin>".into() } else { file.display().to_string() };
    let read = if stdin { read_some(io::stdin()) } else { File::open(file).and_then(read_some) };
    let bytes = read.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => refuse(&name, "there is no such file"),
        _ => unreadable(&name, &error),
    })?;
    let text = Text::from_bytes(name, bytes, Dialect::Canonical)?;
    let parsed = text.parse()?;
    Gate::from_value(&parsed.value).map_err(|problems| text.refuse_all(&parsed, &problems))
}

/// The text of a policy, before anybody looked into it.
#[derive(Debug)]
pub(crate) struct Text {
    name: String,
    text: String,
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Format {
    Json,
    Toml,
    /// Rappel's brackets without JSON around them.
    Brackets,
    /// The name of a preset and no text at all.
    Preset,
}

/// A text that was taken apart: the value it holds, and where its parts are.
struct Parsed {
    value: Value,
    places: Option<Place>,
}

impl Text {
    /// Reads a file. Only what cannot be helped by the one who named it counts as unexpected.
    fn read(file: &Path, dialect: Dialect) -> Result<Self, Refusal> {
        let stdin = file == Path::new("-");
        let name = if stdin { "<stdin>".into() } else { file.display().to_string() };
        let read =
            if stdin { read_some(io::stdin()) } else { File::open(file).and_then(read_some) };
        match read {
            Ok(bytes) => Text::from_bytes(name, bytes, dialect),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Text::preset(name, dialect),
            Err(error) => Err(unreadable(&name, &error)),
        }
    }

    /// What stands for a file that does not exist.
    fn preset(name: String, dialect: Dialect) -> Result<Self, Refusal> {
        if dialect != Dialect::Canonical {
            return Err(refuse(&name, "there is no such file"));
        }
        if preset::named(&name).is_some() {
            return Ok(Text { name, text: String::new(), format: Format::Preset });
        }
        let near = nearest(&name, preset::ALL.iter().map(|(name, _)| *name));
        let advice = near.map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
        let message = format!("there is no such file or preset{advice}");
        Err(refuse(&name, &message))
    }

    fn from_bytes(name: String, bytes: Vec<u8>, dialect: Dialect) -> Result<Self, Refusal> {
        if bytes.len() > MOST_BYTES {
            return Err(refuse(&name, "it is larger than 1 MiB"));
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Text::new(name, &text, dialect)),
            Err(error) => {
                let byte = error.utf8_error().valid_up_to() + 1;
                Err(refuse(&name, &format!("not UTF-8 text from byte {byte} on")))
            }
        }
    }

    /// The text of a file of this name.
    pub(crate) fn new(name: String, text: &str, dialect: Dialect) -> Self {
        // Some editors begin a file with a mark that is no part of its text.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).to_string();
        let extension = Path::new(&name).extension().unwrap_or_default();
        let format = match dialect {
            _ if extension.eq_ignore_ascii_case("toml") => Format::Toml,
            Dialect::RappelIr if !text.trim_start().starts_with(['{', '"']) => Format::Brackets,
            _ => Format::Json,
        };
        Text { name, text, format }
    }

    /// Reads the policy that the text holds.
    pub(crate) fn load(self, dialect: Dialect) -> Result<Loaded, Refusal> {
        let parsed = self.parse()?;
        let policy = dialect.import(&parsed.value).and_then(|imported| {
            let policy = imported.policy.check()?;
            Ok((policy, imported.notes))
        });
        match policy {
            Ok((policy, notes)) => Ok(Loaded { name: self.name, policy, notes }),
            Err(problems) => Err(self.refuse_all(&parsed, &problems)),
        }
    }

    fn parse(&self) -> Result<Parsed, Refusal> {
        if self.text.trim().is_empty() && self.format == Format::Json {
            return Err(refuse(&self.name, "it is empty"));
        }
        match self.format {
            Format::Json => self.parse_json(),
            Format::Toml => self.parse_toml(),
            Format::Brackets => {
                Ok(Parsed { value: json!({ "brackets": self.text }), places: None })
            }
            Format::Preset => Ok(Parsed { value: json!(self.name), places: None }),
        }
    }

    fn parse_json(&self) -> Result<Parsed, Refusal> {
        let value = serde_json::from_str(&self.text).map_err(|error| {
            let message = format!("not JSON: {}", json_message(&error));
            let span = json_span(&self.text, &error);
            Refusal::bad_input(vec![
                Complaint::new(Code::P1, &self.name, message).at(&self.text, &span),
            ])
        })?;
        let places = locate::json(&self.text);
        if places.repeated.is_empty() {
            return Ok(Parsed { value, places: Some(places.root) });
        }
        let complain = |again: &locate::Repeated| {
            let message = format!("{}: given twice; remove one of them", again.name);
            let complaint = Complaint::new(Code::P1, &self.name, message);
            complaint.about(&again.name).at(&self.text, &again.span)
        };
        Err(Refusal::bad_input(places.repeated.iter().map(complain).collect()))
    }

    fn parse_toml(&self) -> Result<Parsed, Refusal> {
        match toml_text::parse(&self.text) {
            Ok((value, root)) => Ok(Parsed { value, places: Some(root) }),
            Err(errors) => {
                let complain = |error: &toml_text::SyntaxError| {
                    let message = format!("not TOML: {}", error.message);
                    Complaint::new(Code::P1, &self.name, message).at(&self.text, &error.span)
                };
                Err(Refusal::bad_input(errors.iter().map(complain).collect()))
            }
        }
    }

    fn refuse_all(&self, parsed: &Parsed, problems: &Problems) -> Refusal {
        let shown = problems.iter().take(MOST_COMPLAINTS);
        let mut complaints: Vec<_> = shown.map(|problem| self.complain(parsed, problem)).collect();
        let more = problems.iter().count() - complaints.len();
        if more > 0 {
            let message = format!("{}: {more} problems more", self.name);
            complaints.push(Complaint::new(Code::P1, &self.name, message));
        }
        Refusal::bad_input(complaints)
    }

    fn complain(&self, parsed: &Parsed, problem: &Problem) -> Complaint {
        if let (Format::Brackets, Some((message, span))) =
            (self.format, bracket_span(&self.text, &problem.message))
        {
            let complaint = Complaint::new(problem.code, &self.name, message).about(&problem.path);
            return complaint.at(&self.text, &span);
        }
        let complaint =
            Complaint::new(problem.code, &self.name, &problem.message).about(&problem.path);
        match &parsed.places {
            Some(root) => complaint.at(&self.text, root.find(&problem.path)),
            None => complaint,
        }
    }
}

/// Reads as much as a policy may take, and one byte more to notice what is larger.
fn read_some(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = u64::try_from(MOST_BYTES + 1).unwrap_or(u64::MAX);
    source.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unreadable(name: &str, error: &io::Error) -> Refusal {
    let (what, exit) = match error.kind() {
        io::ErrorKind::IsADirectory => ("it is a directory".to_string(), Exit::BadInput),
        io::ErrorKind::PermissionDenied => ("permission denied".to_string(), Exit::BadInput),
        io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename => {
            (error.to_string(), Exit::BadInput)
        }
        _ => (error.to_string(), Exit::Unexpected),
    };
    Refusal { exit, ..refuse(name, &what) }
}

/// A complaint about a file as a whole says what was attempted with which file.
fn refuse(name: &str, what: &str) -> Refusal {
    Refusal::bad_input(vec![Complaint::new(Code::C1, name, format!("read {name}: {what}"))])
}

/// The parser's message without the position, which is shown beside it.
fn json_message(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    let message = message.strip_suffix(&position).unwrap_or(&message);
    message.replace("EOF while parsing", "the text ends inside")
}

/// The byte that the parser stumbled over. Its columns count bytes, from 1; column 0 stands for
/// the end of the line before.
fn json_span(text: &str, error: &serde_json::Error) -> Range<usize> {
    let end = text.trim_end().len();
    if error.is_eof() {
        return end..end;
    }
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    let line_start: usize = lines.map(str::len).sum();
    let at = (line_start + error.column()).saturating_sub(1);
    at..at
}

/// The parser of brackets says `... (column 12)`, counting characters through all lines. Answers
/// the message without it, and the place.
fn bracket_span<'m>(text: &str, message: &'m str) -> Option<(&'m str, Range<usize>)> {
    let (message, column) = message.strip_suffix(')')?.rsplit_once(" (column ")?;
    let before: usize = column.parse().ok()?;
    let at = text.char_indices().nth(before.saturating_sub(1)).map_or(text.len(), |(at, _)| at);
    Some((message, at..at))
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    fn complaints(
        name: &str,
        text: &str,
        dialect: Dialect,
    ) -> Vec<(Option<usize>, Option<usize>, String)> {
        let refusal = Text::new(name.into(), text, dialect).load(dialect).unwrap_err();
        assert_eq!(refusal.exit, Exit::BadInput);
        let line = |c: Complaint| (c.spot.line, c.spot.column, c.message);
        refusal.complaints.into_iter().map(line).collect()
    }

    #[test]
    fn every_problem_of_a_policy_has_its_place() {
        let text =
            "{\n  \"max_attempts\": 0,\n  \"jiter\": 1,\n  \"backoff\": {\"type\": \"fixed\"}\n}";
        let found = complaints("p.json", text, Dialect::Canonical);
        let places: Vec<_> = found.iter().map(|(line, column, _)| (*line, *column)).collect();
        assert_eq!(places, [(Some(2), Some(3)), (Some(3), Some(3)), (Some(4), Some(3))]);
        assert!(found[1].2.contains("did you mean \"jitter\""), "{found:?}");
    }

    #[test]
    fn the_same_problems_have_their_place_in_toml() {
        let text = "max_attempts = 0\n\n[backoff]\ntype = 'fixed'\ndelay = 5\n";
        let found = complaints("p.toml", text, Dialect::Canonical);
        let places: Vec<_> = found.iter().map(|(line, column, _)| (*line, *column)).collect();
        assert_eq!(places, [(Some(1), Some(1)), (Some(5), Some(1))]);
    }

    #[test]
    fn syntax_errors_have_the_place_that_the_parser_names() {
        for (text, line, column, message) in [
            ("{\"a\": }", 1, 7, "not JSON: expected value"),
            ("{\n  \"é\": 1,\n}", 3, 1, "not JSON: trailing comma"),
            ("{\"a\": 1\n", 1, 8, "not JSON: the text ends inside an object"),
            ("{} x", 1, 4, "not JSON: trailing characters"),
            (
                "{\"a\": \"\n\"}",
                1,
                8,
                "not JSON: control character (\\u0000-\\u001F) found while parsing a string",
            ),
        ] {
            let found = complaints("p.json", text, Dialect::Canonical);
            assert_eq!(found, [(Some(line), Some(column), message.to_string())], "{text}");
        }
    }

    #[test]
    fn a_field_that_is_given_twice_is_refused() {
        let found =
            complaints("p.json", r#"{"max_attempts": 3, "max_attempts": 5}"#, Dialect::Canonical);
        let message = "max_attempts: given twice; remove one of them";
        assert_eq!(found, [(Some(1), Some(21), message.to_string())]);
    }

    #[test]
    fn a_problem_in_bare_brackets_has_a_line_and_a_column() {
        let found = complaints("p.ir", "[retry: 3]\n[retry: x]", Dialect::RappelIr);
        assert_eq!((found[0].0, found[0].1), (Some(2), Some(9)));
        assert!(!found[0].2.contains("column"), "{found:?}");
        let quoted = complaints("p.json", "{\n\"brackets\": \"[retry: x]\"}", Dialect::RappelIr);
        assert_eq!((quoted[0].0, quoted[0].1), (Some(2), Some(1)));
    }

    #[test]
    fn brackets_are_read_bare_and_in_json() {
        for text in ["[retry: 3, backoff: 60]", r#" {"brackets": "[retry: 3, backoff: 60]"}"#] {
            let loaded = Text::new("p".into(), text, Dialect::RappelIr).load(Dialect::RappelIr);
            assert_eq!(loaded.unwrap().policy.max_attempts.to_string(), "4");
        }
    }

    #[test]
    fn more_problems_than_anybody_makes_by_hand_are_counted() {
        let delays = vec!["5"; 10_000].join(",");
        let text = format!("{{\"backoff\": {{\"type\": \"schedule\", \"delays\": [{delays}]}}}}");
        let found = complaints("p.json", &text, Dialect::Canonical);
        assert_eq!(found.len(), 201);
        assert_eq!(found[200], (None, None, "p.json: 9800 problems more".to_string()));
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_text() {
        let loaded = Text::new("p".into(), "\u{feff}5", Dialect::Canonical);
        assert_eq!(loaded.load(Dialect::Canonical).unwrap().policy.max_attempts.to_string(), "5");
    }
}
