//! Reading configuration that people typed, with errors that help them.
//!
//! serde stops at the first error and names Rust types in its messages. A policy is short and
//! written by hand, so it is read from a JSON value field by field instead: every problem is
//! reported at once, each names the field, the value, the rule and the remedy, and an unknown
//! field is answered with the nearest known name. The dialects read their own fields with the
//! same means, so their errors speak their own words.

use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::{Code, duration};

/// One thing that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The code to look it up by.
    pub code: Code,
    /// The field it is about, such as `rules[2].on.types`; empty for the whole.
    pub path: String,
    /// A sentence that names the field, the value, the rule and the remedy.
    pub message: String,
}

impl Problem {
    /// A problem of something that can be read and cannot work; the message is a whole sentence.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Problem { code: Code::P4, path: path.into(), message: message.into() }
    }

    /// Gives the problem another code.
    pub fn with_code(mut self, code: Code) -> Self {
        self.code = code;
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Everything that is wrong with a configuration, in the order it was found. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// `Ok` when there is nothing wrong.
    pub fn check(problems: Vec<Problem>) -> Result<(), Problems> {
        if problems.is_empty() { Ok(()) } else { Err(Problems(problems)) }
    }

    /// The problems in order.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Problems(vec![problem])
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            write!(f, "{}{problem}", if index == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// A value together with the way to it.
#[derive(Clone, Debug)]
pub struct At<'a> {
    path: String,
    value: &'a Value,
    lenient: bool,
}

impl<'a> At<'a> {
    /// The whole of a configuration.
    pub fn root(value: &'a Value) -> Self {
        At { path: String::new(), value, lenient: false }
    }

    /// The whole of something that a program wrote, perhaps a newer one: unknown fields are
    /// ignored.
    pub fn stored(value: &'a Value) -> Self {
        At { path: String::new(), value, lenient: true }
    }

    /// The value.
    pub fn value(&self) -> &'a Value {
        self.value
    }

    /// The way to it.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// A problem with this value; `what` continues a sentence that begins with the value.
    pub fn problem(&self, what: impl fmt::Display) -> Problem {
        let value = shown(self.value);
        let message = match self.path.as_str() {
            "" => format!("{value} {what}"),
            path => format!("{path}: {value} {what}"),
        };
        Problem { code: Code::P3, path: self.path.clone(), message }
    }

    /// A problem with this value, as a result.
    pub fn refuse<T>(&self, what: impl fmt::Display) -> Result<T, Problems> {
        Err(self.problem(what).into())
    }

    /// A duration with a unit, `"250ms"`.
    pub fn duration(&self) -> Result<Duration, Problems> {
        match self.value {
            Value::String(text) => duration::parse(text).or_else(|what| self.refuse(what)),
            Value::Number(n) => self.refuse(format!("has no unit; write \"{n}s\" or \"{n}ms\"")),
            _ => self.refuse("is not a duration; write a number with a unit, such as \"250ms\""),
        }
    }

    /// A duration as a number of seconds, fractions allowed.
    pub fn seconds(&self) -> Result<Duration, Problems> {
        let seconds = self.number("a number of seconds")?;
        if seconds < 0.0 {
            return self.refuse("is negative; write a number of seconds from 0");
        }
        if seconds > duration::LONGEST.as_secs() as f64 {
            return self.refuse("is longer than 100 years (the unit is seconds)");
        }
        // Printed, a float is the shortest decimal that means it, which is what was typed: 0.1 s
        // is 100 ms, although f64 holds a little more than 0.1.
        duration::parse(&format!("{seconds}s")).or_else(|what| self.refuse(what))
    }

    /// A duration as a whole number of milliseconds.
    pub fn millis(&self) -> Result<Duration, Problems> {
        let longest = u64::try_from(duration::LONGEST.as_millis()).unwrap_or(u64::MAX);
        match self.value.as_u64() {
            Some(millis) if millis <= longest => Ok(Duration::from_millis(millis)),
            Some(_) => self.refuse("is longer than 100 years (the unit is milliseconds)"),
            None if self.value.as_f64().is_some_and(|n| n < 0.0) => self.refuse("is negative"),
            None => self.refuse("is not a whole number of milliseconds"),
        }
    }

    /// A finite number; `what` names what is wanted.
    pub fn number(&self, what: &str) -> Result<f64, Problems> {
        match self.value.as_f64() {
            Some(number) if number.is_finite() => Ok(number),
            _ => self.refuse(format!("is not {what}")),
        }
    }

    /// A whole number that fits 32 bits; `what` names what is wanted.
    pub fn count(&self, what: &str) -> Result<u32, Problems> {
        let number = self.value.as_u64().and_then(|n| u32::try_from(n).ok());
        number.map_or_else(|| self.refuse(format!("is not {what}")), Ok)
    }

    /// `true` or `false`.
    pub fn flag(&self) -> Result<bool, Problems> {
        self.value.as_bool().map_or_else(|| self.refuse("is not true or false"), Ok)
    }

    /// Text.
    pub fn text(&self) -> Result<&'a str, Problems> {
        self.value.as_str().map_or_else(|| self.refuse("is not a text"), Ok)
    }

    /// One of a few words, each assignment for a value.
    pub fn word<T: Clone>(&self, words: &[(&'static str, T)]) -> Result<T, Problems> {
        let found = self.value.as_str().and_then(|word| words.iter().find(|(w, _)| *w == word));
        if let Some((_, value)) = found {
            return Ok(value.clone());
        }
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let near = self.value.as_str().and_then(|word| nearest(word, names.iter().copied()));
        match near {
            Some(near) => self.refuse(format!("is unknown; did you mean \"{near}\"?")),
            None => self.refuse(format!("is unknown; use one of {}", quoted(&names))),
        }
    }

    /// The entries of a list.
    pub fn list(&self) -> Result<Vec<At<'a>>, Problems> {
        let Some(list) = self.value.as_array() else {
            return self.refuse("is not a list");
        };
        let entry =
            |(i, value)| At { path: format!("{}[{i}]", self.path), value, lenient: self.lenient };
        Ok(list.iter().enumerate().map(entry).collect())
    }

    /// A list, each entry read by `read`, every problem kept.
    pub fn list_of<T>(
        &self,
        read: impl Fn(&At<'a>) -> Result<T, Problems>,
    ) -> Result<Vec<T>, Problems> {
        let (mut all, mut problems) = (Vec::new(), Vec::new());
        for entry in self.list()? {
            match read(&entry) {
                Ok(value) => all.push(value),
                Err(found) => problems.extend(found.0),
            }
        }
        Problems::check(problems).map(|()| all)
    }

    /// A list of texts.
    pub fn texts(&self) -> Result<Vec<String>, Problems> {
        self.list_of(|entry| entry.text().map(str::to_string))
    }

    /// The fields of an object; `what` names what is wanted when it is none.
    pub fn fields(&self, what: &str) -> Result<Fields<'a>, Problems> {
        match self.value.as_object() {
            Some(map) => {
                let (path, lenient) = (self.path.clone(), self.lenient);
                Ok(Fields { path, map, lenient, known: Vec::new(), problems: Vec::new() })
            }
            None => self.refuse(format!("is not {what}")),
        }
    }
}

/// The fields of one object. Ask for each field by name, then [`Fields::finish`].
#[derive(Debug)]
pub struct Fields<'a> {
    path: String,
    map: &'a Map<String, Value>,
    lenient: bool,
    known: Vec<&'static str>,
    problems: Vec<Problem>,
}

impl<'a> Fields<'a> {
    /// The field if it is there, also when it is `null`.
    pub fn get(&mut self, name: &'static str) -> Option<At<'a>> {
        if !self.known.contains(&name) {
            self.known.push(name);
        }
        let value = self.map.get(name)?;
        Some(At { path: join(&self.path, name), value, lenient: self.lenient })
    }

    /// The field if it is there and `read` accepts it. Problems are kept for [`Fields::finish`].
    pub fn read<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&At<'a>) -> Result<T, Problems>,
    ) -> Option<T> {
        let at = self.get(name)?;
        self.keep(read(&at))
    }

    /// As [`Fields::read`], where `null` says something of its own: `Some(None)`.
    pub fn read_or_null<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&At<'a>) -> Result<T, Problems>,
    ) -> Option<Option<T>> {
        let at = self.get(name)?;
        if at.value.is_null() { Some(None) } else { self.keep(read(&at)).map(Some) }
    }

    /// As [`Fields::read`], for a field that must be there.
    pub fn require<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&At<'a>) -> Result<T, Problems>,
    ) -> Option<T> {
        if !self.map.contains_key(name) {
            let path = join(&self.path, name);
            let problem = Problem::new(&path, format!("{path}: missing, and required"));
            self.problems.push(problem.with_code(Code::P3));
        }
        self.read(name, read)
    }

    /// Records a problem that concerns several fields.
    pub fn report(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// Refuses unknown fields and answers with every problem found.
    pub fn finish(mut self) -> Result<(), Problems> {
        let unknown = |key: &&String| !self.lenient && !self.known.contains(&key.as_str());
        for key in self.map.keys().filter(unknown) {
            let advice = match nearest(key, self.known.iter().copied()) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => format!("known are {}", quoted(&self.known)),
            };
            let place = if self.path.is_empty() { "" } else { &format!("{}: ", self.path) };
            let message = format!("{place}unknown field \"{}\"; {advice}", cut(key));
            let problem = Problem::new(join(&self.path, key), message);
            self.problems.push(problem.with_code(Code::P2));
        }
        Problems::check(self.problems)
    }

    /// The problems found so far, of which there must be one. For an object whose fields depend
    /// on one that is wrong: to judge the others would only confuse.
    pub fn into_problems(self) -> Problems {
        Problems(self.problems)
    }

    fn keep<T>(&mut self, result: Result<T, Problems>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(found) => {
                self.problems.extend(found.0);
                None
            }
        }
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_string() } else { format!("{path}.{name}") }
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
}

/// A value as it was typed, cut when it is long.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
        other => cut(&other.to_string()),
    }
}

/// The beginning of a text that may be long.
pub(crate) fn cut(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}

/// The known name that was probably meant: at most a third of it differs.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower: Vec<char> = word.to_lowercase().chars().collect();
    if lower.len() > 64 {
        return None;
    }
    let is_near = |distance: usize, name: &str| distance * 3 <= name.chars().count().max(3);
    // As many letters as one has more than the other have to be typed at least.
    let known = known.filter(|name| is_near(name.chars().count().abs_diff(lower.len()), name));
    let distances = known.map(|name| {
        let letters: Vec<char> = name.to_lowercase().chars().collect();
        (edits(&lower, &letters), name)
    });
    let (distance, name) = distances.min_by_key(|(distance, _)| *distance)?;
    is_near(distance, name).then_some(name)
}

/// How many letters must be put in, left out, changed or swapped with their neighbour to get from
/// one word to the other.
fn edits(from: &[char], to: &[char]) -> usize {
    let mut rows = vec![vec![0; to.len() + 1]; from.len() + 1];
    for i in 0..=from.len() {
        for j in 0..=to.len() {
            rows[i][j] = match (i, j) {
                (0, rest) | (rest, 0) => rest,
                _ => {
                    let changed = rows[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
                    let swapped =
                        i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
                    let swap = if swapped { rows[i - 2][j - 2] + 1 } else { usize::MAX };
                    changed.min(swap).min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1)
                }
            };
        }
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;
    use serde_json::json;

    #[test]
    fn every_problem_of_an_object_is_reported() {
        let value = json!({"delay": 5, "tpye": "fixed", "count": -1});
        let mut fields = At::root(&value).fields("an object").unwrap();
        fields.read("delay", At::duration);
        fields.read("count", |at| at.count("a whole number"));
        fields.read("type", At::text);
        let problems = fields.finish().unwrap_err();
        let messages: Vec<_> = problems.iter().map(|p| p.message.as_str()).collect();
        assert_eq!(
            messages,
            [
                r#"delay: 5 has no unit; write "5s" or "5ms""#,
                "count: -1 is not a whole number",
                r#"unknown field "tpye"; did you mean "type"?"#,
            ]
        );
    }

    #[test]
    fn seconds_become_exact_nanoseconds() {
        for (seconds, nanos) in [(0.1, 100_000_000), (0.0015, 1_500_000), (60.0, 60_000_000_000)] {
            let value = json!(seconds);
            assert_eq!(At::root(&value).seconds(), Ok(Duration::from_nanos(nanos)));
        }
        for bad in [json!(-1.0), json!("NaN"), json!(1e300), json!(null)] {
            assert!(At::root(&bad).seconds().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_distant_name_is_not_suggested() {
        assert_eq!(nearest("jiter", ["jitter", "cap"].into_iter()), Some("jitter"));
        assert_eq!(nearest("colour", ["jitter", "cap"].into_iter()), None);
    }
}
