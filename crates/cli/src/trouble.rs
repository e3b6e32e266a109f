//! Why a command did not do what was asked, for people and for programs.
//!
//! What somebody has to change is refused, with every mistake at once and its place where there is
//! one; everything else has failed.

use std::io;
use std::ops::Range;

use resurgam_core::Code;
use serde::Serialize;

use crate::exit::Exit;
use crate::form::{Form, line};
use crate::output::Output;
use crate::policy::complaint::{Complaint, Lines, Refusal, printable};
use crate::style;

/// Why a command did not do what was asked.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Somebody has to change the input: exit code 2.
    Refused(Vec<Mistake>),
    /// Something else went wrong: exit code 1.
    Failed(Box<Mistake>),
}

/// One thing that is wrong with the input. Without a place, it is about the command line.
#[derive(Debug, Serialize)]
pub(crate) struct Mistake {
    pub(crate) file: Option<String>,
    pub(crate) line: Option<usize>,
    pub(crate) column: Option<usize>,
    /// The line of the file, or the part of a very long one around the place.
    pub(crate) source: Option<String>,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    pub(crate) code: Code,
    /// The way to the value, in a graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
    /// The message for people, where that takes more than a sentence.
    #[serde(skip)]
    pub(crate) text: Option<String>,
}

impl Mistake {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Mistake {
            file: None,
            line: None,
            column: None,
            source: None,
            message: message.into(),
            hint: None,
            code: Code::C1,
            path: None,
            text: None,
        }
    }

    /// Gives it a code that says more.
    pub(crate) fn code(mut self, code: Code) -> Self {
        self.code = code;
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn in_file(mut self, file: &str) -> Self {
        self.file = Some(file.to_string());
        self
    }

    /// Adds the place in the text of the file.
    pub(crate) fn at(self, text: &str, span: &Range<usize>) -> Self {
        self.within(&Lines::of(text), span)
    }

    /// Adds the place in a text with many mistakes.
    pub(crate) fn within(mut self, lines: &Lines<'_>, span: &Range<usize>) -> Self {
        let file = self.file.clone().unwrap_or_default();
        let message = match &self.hint {
            Some(hint) => format!("{}; {hint}", self.message),
            None => self.message.clone(),
        };
        let complaint = Complaint::new(self.code, &file, message).within(lines, span);
        (self.line, self.column) = (complaint.spot.line, complaint.spot.column);
        self.source = Some(lines.source(span.start));
        self.text = Some(complaint.to_text());
        self
    }

    fn to_text(&self) -> String {
        if let Some(text) = &self.text {
            return text.clone();
        }
        let line = self.line.map(|line| format!(":{line}")).unwrap_or_default();
        let file = self.file.as_ref().map(|file| format!("{}{line}: ", printable(file)));
        let hint = self.hint.as_ref().map(|hint| format!("; {}", printable(hint)));
        format!(
            "{0}error:{0:#} {1} {2}{3}{4}\n",
            style::ERROR,
            self.code,
            file.unwrap_or_default(),
            printable(&self.message),
            hint.unwrap_or_default()
        )
    }
}

/// A policy that is refused is so with the words that `policy check` has for it.
impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        let mistake = |complaint: &Complaint| Mistake {
            file: Some(complaint.file.clone()),
            line: complaint.spot.line,
            column: complaint.spot.column,
            text: Some(complaint.to_text()),
            ..Mistake::new(complaint.message.clone()).code(complaint.code)
        };
        Trouble::Refused(refusal.complaints.iter().map(mistake).collect())
    }
}

impl Trouble {
    /// One mistake on the command line.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Mistake::new(message).into()
    }

    /// Something that nobody has to change went wrong.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Trouble::Failed(Box::new(Mistake::new(message).code(Code::C6)))
    }

    /// What went wrong, for somebody who goes on all the same.
    pub(crate) fn messages(&self) -> Vec<String> {
        match self {
            Trouble::Refused(mistakes) => mistakes.iter().map(|one| one.message.clone()).collect(),
            Trouble::Failed(mistake) => vec![mistake.message.clone()],
        }
    }

    /// What is printed about it.
    pub(crate) fn output(self, json: bool) -> Output {
        let (mistakes, exit) = match self {
            Trouble::Refused(mistakes) => (mistakes, Exit::BadInput),
            Trouble::Failed(mistake) => (vec![*mistake], Exit::Unexpected),
        };
        if json {
            return Output::json(line(&Form::default().with("errors", mistakes)), exit);
        }
        let text: Vec<String> = mistakes.iter().map(Mistake::to_text).collect();
        Output { stdout: String::new(), stderr: text.join("\n"), exit }
    }
}

/// What the engine refuses is for the caller to change; what the store refuses is not, unless there
/// is none, or one of an older version.
impl From<resurgam::Error> for Trouble {
    fn from(error: resurgam::Error) -> Self {
        let refused = error.is_unknown()
            || error.is_closed()
            || error.is_open()
            || error.is_already_exists()
            || error.is_too_large()
            || error.is_full()
            || error.is_invalid()
            || matches!(error.code(), Code::C4 | Code::D8);
        let mistake = Mistake::new(error.to_string()).code(error.code());
        match refused {
            true => mistake.into(),
            false => Trouble::Failed(Box::new(mistake)),
        }
    }
}

/// Somebody has to change this.
impl From<Mistake> for Trouble {
    fn from(mistake: Mistake) -> Self {
        Trouble::Refused(vec![mistake])
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Trouble::failed(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn a_mistake_is_one_json_value_with_all_its_fields_for_programs() {
        let mistake = Mistake::new("wrong").in_file("a.json").at("{\n  1", &(4..5));
        let output = Trouble::Refused(vec![mistake]).output(true);
        assert_eq!(
            output.stdout,
            "{\"errors\":[{\"file\":\"a.json\",\"line\":2,\"column\":3,\"source\":\"  1\",\
             \"message\":\"wrong\",\"hint\":null,\"code\":\"C1\"}]}\n"
        );
        assert_eq!((output.exit, output.stderr.as_str()), (Exit::BadInput, ""));
    }

    #[test]
    fn what_failed_is_told_from_what_was_refused() {
        let failed = Trouble::failed("the disk is full").output(false);
        let text = anstream::adapter::strip_str(&failed.stderr).to_string();
        assert_eq!(
            (failed.exit, text.as_str()),
            (Exit::Unexpected, "error: C6 the disk is full\n")
        );
    }
}
