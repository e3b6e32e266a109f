//! The brackets behind an action call of Rappel's IR.
//!
//! ```text
//! [retry: 3, backoff: 60]                       any failure
//! [NetworkError -> retry: 5, backoff: 2m]       one type
//! [(A, B) -> retry: 3]   [A, B -> retry: 3]     several
//! [timeout: 2m]                                 of one attempt
//! ```
//! Ours on top: `ms`, `d` and decimals in durations, `backoff: 10s linear` and
//! `[timeout_retry: 2, backoff: 5s]` for attempts that timed out.

use std::time::Duration;

use crate::config::{Problem, nearest};
use crate::duration;

/// One bracket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bracket {
    /// Tries failures again.
    Retry {
        /// The failures it is about; empty for all.
        types: Vec<String>,
        /// How often after the first attempt.
        retries: u32,
        /// The first delay.
        backoff: Option<Growth>,
    },
    /// Tries attempts that timed out again.
    TimeoutRetry {
        /// How often after the first attempt.
        retries: u32,
        /// The first delay.
        backoff: Option<Growth>,
    },
    /// Bounds one attempt.
    Timeout(Duration),
}

/// The first delay and how it grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// The first delay.
    pub base: Duration,
    /// Growing by the base each time; doubling otherwise.
    pub linear: bool,
}

/// Reads a row of brackets.
///
/// ```
/// use resurgam_core::retry::dialect::parse_brackets;
///
/// assert_eq!(parse_brackets("[retry: 3, backoff: 60] [timeout: 2m]").unwrap().len(), 2);
/// let error = parse_brackets("[retry: 3, jitter: 1]").unwrap_err();
/// assert_eq!(
///     error.message,
///     r#"unknown field "jitter"; known are "retry", "backoff" (column 12)"#
/// );
/// ```
pub fn parse_brackets(text: &str) -> Result<Vec<Bracket>, Problem> {
    let mut parser = Parser { text, at: 0 };
    let mut brackets = Vec::new();
    while !parser.is_done() {
        brackets.push(parser.bracket()?);
    }
    Ok(brackets)
}

/// More retries than this would not fit once the first attempt is counted.
const MOST_RETRIES: u32 = u32::MAX - 1;

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

#[derive(Default)]
struct Given {
    retry: Option<u32>,
    timeout_retry: Option<u32>,
    backoff: Option<Growth>,
    timeout: Option<Duration>,
}

impl<'a> Parser<'a> {
    fn bracket(&mut self) -> Result<Bracket, Problem> {
        let start = self.next_place();
        self.expect("[")?;
        let types = self.types()?;
        let given = self.fields(&types)?;
        self.expect("]")?;
        match given {
            Given { timeout: Some(_), retry: None, timeout_retry: None, .. }
                if given.backoff.is_some() =>
            {
                self.problem(start, "backoff: a bracket with a timeout has no backoff")
            }
            Given { timeout: Some(timeout), retry: None, timeout_retry: None, .. } => {
                Ok(Bracket::Timeout(timeout))
            }
            Given { timeout: Some(_), .. } => {
                self.problem(start, "timeout: write it in a bracket of its own, [timeout: 2m]")
            }
            Given { retry: Some(_), timeout_retry: Some(_), .. } => {
                self.problem(start, "timeout_retry: write it in a bracket of its own")
            }
            Given { timeout_retry: Some(retries), backoff, .. } => {
                Ok(Bracket::TimeoutRetry { retries, backoff })
            }
            Given { retry: Some(retries), backoff, .. } => {
                Ok(Bracket::Retry { types, retries, backoff })
            }
            Given { .. } => self
                .problem(start, "retry: missing, so the bracket changes nothing; write [retry: 3]"),
        }
    }

    /// `A, B ->` or `(A, B) ->`, or nothing when the bracket begins with a field.
    fn types(&mut self) -> Result<Vec<String>, Problem> {
        let start = self.at;
        let grouped = self.eat("(");
        let mut types = Vec::new();
        while let Some(name) = self.name() {
            types.push(name.to_string());
            if !self.eat(",") {
                break;
            }
        }
        if grouped {
            self.expect(")")?;
        }
        if self.eat("->") {
            if types.is_empty() {
                return self.problem(start, "no exception type before ->");
            }
            return Ok(types);
        }
        if grouped {
            self.expect("->")?;
        }
        // No arrow: what looked like a type is the first field.
        self.at = start;
        Ok(Vec::new())
    }

    fn fields(&mut self, types: &[String]) -> Result<Given, Problem> {
        let mut given = Given::default();
        loop {
            let place = self.next_place();
            let Some(name) = self.name() else { return Ok(given) };
            if !KNOWN.contains(&name) {
                return self.unknown(place, name);
            }
            self.expect(":")?;
            match name {
                "retry" => given.retry = Some(self.retries(name)?),
                "timeout" | "timeout_retry" if !types.is_empty() => {
                    let what =
                        "cannot be limited to exception types; write it in a bracket of its own";
                    return self.problem(place, &format!("{name}: {what}"));
                }
                "timeout_retry" => given.timeout_retry = Some(self.retries(name)?),
                "backoff" => {
                    let base = self.duration(name)?;
                    given.backoff = Some(Growth { base, linear: self.eat_word("linear") });
                }
                _ => {
                    let timeout = self.duration(name)?;
                    if timeout.is_zero() {
                        return self.problem(place, "timeout: 0 leaves no time");
                    }
                    given.timeout = Some(timeout);
                }
            }
            if !self.eat(",") {
                return Ok(given);
            }
        }
    }

    fn retries(&mut self, field: &str) -> Result<u32, Problem> {
        let place = self.next_place();
        let value = self.value();
        match value.parse::<u32>() {
            Ok(retries) if retries <= MOST_RETRIES => Ok(retries),
            _ => {
                let range = format!("a number of retries from 0 to {MOST_RETRIES}");
                self.problem(place, &format!("{field}: {} is not {range}", shown(value)))
            }
        }
    }

    fn duration(&mut self, field: &str) -> Result<Duration, Problem> {
        let place = self.next_place();
        let value = self.value();
        let bare = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let read =
            if bare { duration::parse(&format!("{value}s")) } else { duration::parse(value) };
        read.or_else(|what| self.problem(place, &format!("{field}: {} {what}", shown(value))))
    }

    fn unknown<T>(&self, place: usize, name: &str) -> Result<T, Problem> {
        let advice = match nearest(name, KNOWN.into_iter()) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => "known are \"retry\", \"backoff\"".to_string(),
        };
        self.problem(place, &format!("unknown field {}; {advice}", shown(name)))
    }

    /// A number with its unit, or whatever stands in its place.
    fn value(&mut self) -> &'a str {
        self.take(|c| !c.is_whitespace() && !"[](),:".contains(c))
    }

    fn name(&mut self) -> Option<&'a str> {
        let before = self.at;
        let name = self.take(|c| c.is_alphanumeric() || c == '_' || c == '.');
        if name.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            return Some(name);
        }
        self.at = before;
        None
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let before = self.at;
        if self.name() == Some(word) {
            return true;
        }
        self.at = before;
        false
    }

    fn take(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        self.skip_space();
        let rest = &self.text[self.at..];
        let end = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn expect(&mut self, token: &str) -> Result<(), Problem> {
        if self.eat(token) {
            return Ok(());
        }
        let place = self.next_place();
        let found = match self.text[place..].chars().next() {
            Some(found) => format!("found {}", shown(&found.to_string())),
            None => "the text ends".to_string(),
        };
        self.problem(place, &format!("expected \"{token}\", {found}"))
    }

    fn eat(&mut self, token: &str) -> bool {
        self.skip_space();
        let there = self.text[self.at..].starts_with(token);
        if there {
            self.at += token.len();
        }
        there
    }

    fn is_done(&mut self) -> bool {
        self.skip_space();
        self.at == self.text.len()
    }

    fn next_place(&mut self) -> usize {
        self.skip_space();
        self.at
    }

    fn skip_space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn problem<T>(&self, place: usize, message: &str) -> Result<T, Problem> {
        let column = self.text[..place].chars().count() + 1;
        Err(Problem::new("brackets", format!("{message} (column {column})")))
    }
}

const KNOWN: [&str; 4] = ["retry", "backoff", "timeout", "timeout_retry"];

fn shown(text: &str) -> String {
    let short: String = text.chars().take(40).collect();
    format!("\"{short}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(base: u64) -> Option<Growth> {
        Some(Growth { base: Duration::from_secs(base), linear: false })
    }

    #[test]
    fn both_ways_of_listing_types_are_read() {
        let expected = Ok(vec![Bracket::Retry {
            types: vec!["ValueError".into(), "KeyError".into()],
            retries: 3,
            backoff: seconds(30),
        }]);
        assert_eq!(parse_brackets("[(ValueError, KeyError) -> retry: 3, backoff: 30s]"), expected);
        assert_eq!(parse_brackets("[ValueError, KeyError -> retry: 3, backoff: 30]"), expected);
    }

    #[test]
    fn fields_come_in_any_order_over_several_lines_and_the_last_one_wins() {
        let text = "[\n  backoff: 1m,\n  retry: 1, retry: 2\n]";
        let expected = Bracket::Retry { types: vec![], retries: 2, backoff: seconds(60) };
        assert_eq!(parse_brackets(text), Ok(vec![expected]));
    }

    #[test]
    fn every_error_names_the_field_and_the_column() {
        for (text, message) in [
            (
                "[retry: -1]",
                r#"retry: "-1" is not a number of retries from 0 to 4294967294 (column 9)"#,
            ),
            (
                "[retry: 4294967295]",
                r#"retry: "4294967295" is not a number of retries from 0 to 4294967294 (column 9)"#,
            ),
            (
                "[ValueError -> timeout: 3s]",
                "timeout: cannot be limited to exception types; write it in a bracket of its own (column 16)",
            ),
            (
                "[retry: 3, backoff: 5x]",
                r#"backoff: "5x" has the unknown unit "x"; use ms, s, m, h or d (column 21)"#,
            ),
            (
                "[retry: 3, timeout: 5s]",
                "timeout: write it in a bracket of its own, [timeout: 2m] (column 1)",
            ),
            ("[]", "retry: missing, so the bracket changes nothing; write [retry: 3] (column 1)"),
            (
                "[A ->]",
                "retry: missing, so the bracket changes nothing; write [retry: 3] (column 1)",
            ),
            ("[-> retry: 1]", "no exception type before -> (column 2)"),
            ("[retyr: 3]", r#"unknown field "retyr"; did you mean "retry"? (column 2)"#),
            ("[retry: 3", r#"expected "]", the text ends (column 10)"#),
            ("retry: 3", r#"expected "[", found "r" (column 1)"#),
            ("[timeout: 0]", "timeout: 0 leaves no time (column 2)"),
            ("[retry 3]", r#"expected ":", found "3" (column 8)"#),
        ] {
            assert_eq!(parse_brackets(text).unwrap_err().message, message, "{text}");
        }
    }
}
