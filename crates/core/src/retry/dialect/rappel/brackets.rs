//! The brackets behind an action call of Rappel's IR.
//!
//! ```text
//! [retry: 3, backoff: 60]                       any failure
//! [NetworkError -> retry: 5, backoff: 2m]       one type
//! [(A, B) -> retry: 3]   [A, B -> retry: 3]     several
//! [timeout: 2m]                                 of one attempt
//! [gate: "host:{url.host}"]                    the gate of the call
//! [fallback: 0]   [fallback: @charge_later]     what comes in its place when attempts run out
//! ```
//! Ours on top: `ms`, `d` and decimals in durations, `backoff: 10s linear`, `multiplier: 1.5`,
//! `max_delay: 5m`, `jitter: full`, `max_elapsed: 1h`, `on_exhausted: pause 2h`, and
//! `[timeout_retry: 2, backoff: 5s]` for attempts that timed out, the gate, and the fallback. What
//! would change nothing is refused.

use std::time::Duration;

use crate::config::{Problem, nearest};
use crate::gate::KeyTemplate;
use crate::retry::policy::{Exhausted, Jitter};
use crate::{Code, duration};

/// One bracket.
#[derive(Clone, Debug, PartialEq)]
pub enum Bracket {
    /// Tries failures again.
    Retry {
        /// The failures it is about; empty for all.
        types: Vec<String>,
        /// How often after the first attempt.
        retries: u32,
        /// How long between two attempts.
        wait: Wait,
    },
    /// Tries attempts that timed out again.
    TimeoutRetry {
        /// How often after the first attempt.
        retries: u32,
        /// How long between two attempts.
        wait: Wait,
    },
    /// Bounds one attempt. Zero bounds nothing, and is only accepted beside one that does.
    Timeout(Duration),
    /// The gate of the call: a key, or a template for one. It says nothing about retries.
    Gate(KeyTemplate),
    /// What comes in the place of the call when its attempts run out.
    Fallback(Fallback),
}

/// What comes in the place of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Fallback {
    /// Another activity, with the same argument.
    ByActivity(String),
    /// A value. In a program it is an expression, which is read and calculated there.
    Value(serde_json::Value),
}

/// The delays of a bracket.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Wait {
    /// The first delay; none at all without it.
    pub backoff: Option<Growth>,
    /// Bound on one delay.
    pub max_delay: Option<Duration>,
    /// How a delay is spread.
    pub jitter: Option<Jitter>,
    /// Bound on the time since the call was scheduled.
    pub max_elapsed: Option<Duration>,
    /// What follows when attempts run out, where that is not the failure alone.
    pub on_exhausted: Option<WhenExhausted>,
}

/// What a bracket can want when attempts run out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenExhausted {
    /// The call fails.
    Fail,
    /// The call waits for an operator, for this long or for as long as it takes.
    Pause(Option<Duration>),
    /// A dead letter is kept.
    DeadLetter,
    /// The run fails, whatever its code would do, and what it did is undone.
    Compensate,
}

impl WhenExhausted {
    pub(super) fn outcome(self) -> Exhausted {
        match self {
            WhenExhausted::Fail => Exhausted::Fail,
            WhenExhausted::Pause(wait) => Exhausted::Pause { wait },
            WhenExhausted::DeadLetter => Exhausted::DeadLetter,
            WhenExhausted::Compensate => Exhausted::Compensate,
        }
    }
}

/// The first delay and how it grows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// The first delay.
    pub base: Duration,
    /// Growing by the base each time; multiplied otherwise.
    pub linear: bool,
    /// What a delay is multiplied by to get the next.
    pub multiplier: f64,
}

impl Growth {
    /// Delays that double, as Rappel's do.
    pub const fn doubling(base: Duration) -> Self {
        Growth { base, linear: false, multiplier: 2.0 }
    }
}

/// A bracket that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadBracket {
    /// Where, in bytes from the beginning of the text.
    pub at: usize,
    /// What is wrong.
    pub message: String,
}

/// Reads a row of brackets.
///
/// ```
/// use resurgam_core::retry::dialect::parse_brackets;
///
/// assert_eq!(parse_brackets("[retry: 3, backoff: 60] [timeout: 2m]").unwrap().len(), 2);
/// let error = parse_brackets("[retry: 3, jiter: full]").unwrap_err();
/// assert_eq!(error.message, r#"unknown field "jiter"; did you mean "jitter"? (column 12)"#);
/// ```
pub fn parse_brackets(text: &str) -> Result<Vec<Bracket>, Problem> {
    let problem = |bad: BadBracket| {
        let column = text[..bad.at].chars().count() + 1;
        let message = format!("{} (column {column})", bad.message);
        Problem::new("brackets", message).with_code(Code::P3)
    };
    let mut parser = Parser { text, at: 0 };
    let mut brackets = Vec::new();
    let mut zero = None;
    while !parser.is_done() {
        let start = parser.at;
        let bracket = parser.bracket().map_err(problem)?;
        if matches!(bracket, Bracket::Gate(_)) {
            let message = "gate: it belongs to a call, and a policy has none".to_string();
            return Err(problem(BadBracket { at: start, message }));
        }
        if bracket == Bracket::Timeout(Duration::ZERO) {
            zero.get_or_insert(start);
        }
        brackets.push(bracket);
    }
    match zero {
        Some(at) if !is_bounded(&brackets) => {
            Err(problem(BadBracket { at, message: NO_TIME.to_string() }))
        }
        _ => Ok(brackets),
    }
}

/// Reads one bracket: what `text` holds, and nothing behind it. A timeout of zero is left to the
/// caller, who knows the brackets beside it; see [`is_bounded`].
///
/// ```
/// use resurgam_core::retry::dialect::parse_bracket;
///
/// assert_eq!(parse_bracket("[retry: 3, backoff: 5x]").unwrap_err().at, 20);
/// ```
pub fn parse_bracket(text: &str) -> Result<Bracket, BadBracket> {
    let mut parser = Parser { text, at: 0 };
    let bracket = parser.bracket()?;
    if !parser.is_done() {
        return parser.problem(parser.at, "expected the end of the bracket");
    }
    Ok(bracket)
}

/// True when one of the brackets bounds an attempt.
pub fn is_bounded(brackets: &[Bracket]) -> bool {
    brackets.iter().any(|bracket| matches!(bracket, Bracket::Timeout(time) if !time.is_zero()))
}

const NO_TIME: &str = "timeout: 0 leaves no time";

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
    timeout: Option<Duration>,
    backoff: Option<(Duration, bool)>,
    multiplier: Option<f64>,
    max_delay: Option<Duration>,
    jitter: Option<Jitter>,
    max_elapsed: Option<Duration>,
    on_exhausted: Option<WhenExhausted>,
}

impl Given {
    /// The first field that says something about delays.
    fn about_delays(&self) -> Option<&'static str> {
        let fields = [
            (self.backoff.is_some(), "backoff"),
            (self.multiplier.is_some(), "multiplier"),
            (self.max_delay.is_some(), "max_delay"),
            (self.jitter.is_some(), "jitter"),
            (self.max_elapsed.is_some(), "max_elapsed"),
            (self.on_exhausted.is_some(), "on_exhausted"),
        ];
        fields.into_iter().find(|(given, _)| *given).map(|(_, name)| name)
    }

    /// The delays, or why they make no sense.
    fn wait(&self) -> Result<Wait, String> {
        let Given { max_delay, jitter, max_elapsed, on_exhausted, .. } = *self;
        let Some((base, linear)) = self.backoff else {
            let needy = [
                (self.multiplier.is_some(), "multiplier"),
                (max_delay.is_some(), "max_delay"),
                (jitter.is_some(), "jitter"),
            ];
            return match needy.into_iter().find(|(given, _)| *given) {
                Some((_, name)) => {
                    Err(format!("{name}: changes nothing without a backoff; write backoff: 1s"))
                }
                None => Ok(Wait { max_elapsed, on_exhausted, ..Wait::default() }),
            };
        };
        if linear && self.multiplier.is_some() {
            return Err("multiplier: a linear backoff adds, it does not multiply".to_string());
        }
        if jitter == Some(Jitter::Decorrelated) && base.is_zero() {
            return Err("jitter: decorrelated needs a backoff above 0".to_string());
        }
        let multiplier = self.multiplier.unwrap_or(2.0);
        let backoff = Some(Growth { base, linear, multiplier });
        Ok(Wait { backoff, max_delay, jitter, max_elapsed, on_exhausted })
    }
}

impl<'a> Parser<'a> {
    fn bracket(&mut self) -> Result<Bracket, BadBracket> {
        let start = self.next_place();
        self.expect("[")?;
        if let Some(gate) = self.gate()? {
            return Ok(Bracket::Gate(gate));
        }
        if let Some(fallback) = self.fallback()? {
            return Ok(Bracket::Fallback(fallback));
        }
        let types = self.types()?;
        let given = self.fields(&types)?;
        self.expect("]")?;
        match given {
            Given { timeout: Some(timeout), retry: None, timeout_retry: None, .. } => {
                match given.about_delays() {
                    None => Ok(Bracket::Timeout(timeout)),
                    Some(name) => {
                        let what = format!("{name}: a bracket with a timeout has no {name}");
                        self.problem(start, &what)
                    }
                }
            }
            Given { timeout: Some(_), .. } => {
                self.problem(start, "timeout: write it in a bracket of its own, [timeout: 2m]")
            }
            Given { retry: Some(_), timeout_retry: Some(_), .. } => {
                self.problem(start, "timeout_retry: write it in a bracket of its own")
            }
            Given { timeout_retry: Some(retries), .. } => {
                let wait = given.wait().or_else(|what| self.problem(start, &what))?;
                Ok(Bracket::TimeoutRetry { retries, wait })
            }
            Given { retry: Some(retries), .. } => {
                let wait = given.wait().or_else(|what| self.problem(start, &what))?;
                Ok(Bracket::Retry { types, retries, wait })
            }
            Given { .. } => self
                .problem(start, "retry: missing, so the bracket changes nothing; write [retry: 3]"),
        }
    }

    /// `gate: "stripe"]`, where that stands.
    fn gate(&mut self) -> Result<Option<KeyTemplate>, BadBracket> {
        let before = self.at;
        let place = self.next_place();
        if !self.eat_word("gate") || !self.eat(":") {
            self.at = before;
            return Ok(None);
        }
        let value = self.next_place();
        let rest = &self.text[value..];
        let Some(quote) = rest.chars().next().filter(|quote| matches!(quote, '"' | '\'')) else {
            return self.problem(value, "gate: write its key in quotes, [gate: \"stripe\"]");
        };
        let Some((key, _)) = rest[1..].split_once(quote) else {
            return self.problem(value, "gate: its key is not closed");
        };
        self.at = value + key.len() + 2;
        let template = KeyTemplate::parse(key);
        let template =
            template.or_else(|why| self.problem(value, &format!("gate: {} {why}", shown(key))))?;
        if self.eat(",") {
            return self.problem(place, "gate: write it in a bracket of its own");
        }
        self.expect("]")?;
        Ok(Some(template))
    }

    /// `fallback: @charge_later]` or `fallback: 0]`, where that stands.
    fn fallback(&mut self) -> Result<Option<Fallback>, BadBracket> {
        let before = self.at;
        if !self.eat_word("fallback") || !self.eat(":") {
            self.at = before;
            return Ok(None);
        }
        let place = self.next_place();
        if self.eat("@") {
            let name = self.name().map(str::to_string);
            let Some(name) = name else {
                return self.problem(place, "fallback: expected the name of an action behind @");
            };
            if self.eat("(") {
                let what = "fallback: it gets the arguments of the call; write its name alone, \
                            [fallback: @later]";
                return self.problem(place, what);
            }
            self.expect("]")?;
            return Ok(Some(Fallback::ByActivity(name)));
        }
        let mut values = serde_json::Deserializer::from_str(&self.text[place..]).into_iter();
        let value = match (self.constant(), values.next()) {
            (Some(value), _) => value,
            (None, Some(Ok(value))) => {
                self.at = place + values.byte_offset();
                value
            }
            (None, _) => {
                let what = "fallback: expected a value such as 0, or an action such as @later";
                return self.problem(place, what);
            }
        };
        self.expect("]")?;
        Ok(Some(Fallback::Value(value)))
    }

    /// A word of Python's that JSON has not.
    fn constant(&mut self) -> Option<serde_json::Value> {
        if self.eat_word("None") {
            return Some(serde_json::Value::Null);
        }
        let found = [("True", true), ("False", false)].into_iter().find(|(w, _)| self.eat_word(w));
        found.map(|(_, value)| value.into())
    }

    /// `A, B ->` or `(A, B) ->`, or nothing when the bracket begins with a field.
    fn types(&mut self) -> Result<Vec<String>, BadBracket> {
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

    fn fields(&mut self, types: &[String]) -> Result<Given, BadBracket> {
        let mut given = Given::default();
        loop {
            let place = self.next_place();
            let Some(name) = self.name() else { return Ok(given) };
            if name == "gate" {
                let what = "gate: write it in a bracket of its own, [gate: \"stripe\"]";
                return self.problem(place, what);
            }
            if name == "fallback" {
                let what = "fallback: write it in a bracket of its own, [fallback: @later]";
                return self.problem(place, what);
            }
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
                    given.backoff = Some((base, self.eat_word("linear")));
                }
                "multiplier" => given.multiplier = Some(self.multiplier()?),
                "max_delay" => given.max_delay = Some(self.some_time(name, "every delay 0")?),
                "max_elapsed" => given.max_elapsed = Some(self.some_time(name, "no retries")?),
                "jitter" => given.jitter = Some(self.jitter()?),
                "on_exhausted" => given.on_exhausted = Some(self.on_exhausted()?),
                _ => given.timeout = Some(self.duration(name)?),
            }
            if !self.eat(",") {
                return Ok(given);
            }
        }
    }

    fn on_exhausted(&mut self) -> Result<WhenExhausted, BadBracket> {
        let place = self.next_place();
        let word = self.value();
        if word == "pause" {
            let timed = self.text[self.next_place()..].starts_with(|c: char| c.is_ascii_digit());
            let wait = timed.then(|| self.some_time("on_exhausted: pause", "no time to decide"));
            return Ok(WhenExhausted::Pause(wait.transpose()?));
        }
        if let Some((_, known)) = EXHAUSTED.iter().find(|(known, _)| *known == word) {
            return Ok(*known);
        }
        let words = EXHAUSTED.iter().map(|(word, _)| *word).chain(["pause"]);
        let advice = match nearest(word, words) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => "use fail, pause, pause 2h, dead_letter or compensate".to_string(),
        };
        self.problem(place, &format!("on_exhausted: {} is unknown; {advice}", shown(word)))
    }

    fn retries(&mut self, field: &str) -> Result<u32, BadBracket> {
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

    fn duration(&mut self, field: &str) -> Result<Duration, BadBracket> {
        let place = self.next_place();
        let value = self.value();
        let bare = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let read =
            if bare { duration::parse(&format!("{value}s")) } else { duration::parse(value) };
        read.or_else(|what| self.problem(place, &format!("{field}: {} {what}", shown(value))))
    }

    /// A duration above zero; zero would mean `nothing`.
    fn some_time(&mut self, field: &str, nothing: &str) -> Result<Duration, BadBracket> {
        let place = self.next_place();
        let time = self.duration(field)?;
        if time.is_zero() {
            return self.problem(place, &format!("{field}: 0 allows {nothing}; leave it out"));
        }
        Ok(time)
    }

    fn multiplier(&mut self) -> Result<f64, BadBracket> {
        let place = self.next_place();
        let value = self.value();
        match value.parse::<f64>() {
            Ok(factor) if factor.is_finite() && factor > 0.0 => Ok(factor),
            _ => {
                let what = "is not a finite number greater than 0";
                self.problem(place, &format!("multiplier: {} {what}", shown(value)))
            }
        }
    }

    /// A word, or a share such as `20%`. A bare number could be a share or a percentage.
    fn jitter(&mut self) -> Result<Jitter, BadBracket> {
        let place = self.next_place();
        let value = self.value();
        if let Some((_, jitter)) = JITTERS.iter().find(|(word, _)| *word == value) {
            return Ok(*jitter);
        }
        let percent = value.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
        match percent {
            Some(percent) if (0.0..=100.0).contains(&percent) => {
                Ok(Jitter::Proportional(percent / 100.0))
            }
            Some(_) => {
                self.problem(place, &format!("jitter: {} is not from 0% to 100%", shown(value)))
            }
            None => {
                let near = nearest(value, JITTERS.iter().map(|(word, _)| *word));
                let advice = match near {
                    Some(near) => format!("did you mean \"{near}\"?"),
                    None => "use none, full, equal, decorrelated or a share such as 20%".into(),
                };
                self.problem(place, &format!("jitter: {} is unknown; {advice}", shown(value)))
            }
        }
    }

    fn unknown<T>(&self, place: usize, name: &str) -> Result<T, BadBracket> {
        let advice = match nearest(name, KNOWN.into_iter()) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => "known are \"retry\", \"backoff\", \"timeout\"".to_string(),
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

    fn expect(&mut self, token: &str) -> Result<(), BadBracket> {
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

    fn problem<T>(&self, place: usize, message: &str) -> Result<T, BadBracket> {
        Err(BadBracket { at: place, message: message.to_string() })
    }
}

const KNOWN: [&str; 9] = [
    "retry",
    "backoff",
    "timeout",
    "timeout_retry",
    "multiplier",
    "max_delay",
    "jitter",
    "max_elapsed",
    "on_exhausted",
];

/// What is beside `pause`, which may have a time behind it.
const EXHAUSTED: [(&str, WhenExhausted); 3] = [
    ("fail", WhenExhausted::Fail),
    ("dead_letter", WhenExhausted::DeadLetter),
    ("compensate", WhenExhausted::Compensate),
];

const JITTERS: [(&str, Jitter); 4] = [
    ("none", Jitter::None),
    ("full", Jitter::Full),
    ("equal", Jitter::Equal),
    ("decorrelated", Jitter::Decorrelated),
];

fn shown(text: &str) -> String {
    let short: String = text.chars().take(40).collect();
    format!("\"{short}\"")
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;
    use serde_json::json;

    use super::*;

    fn seconds(base: u64) -> Wait {
        let backoff = Some(Growth::doubling(Duration::from_secs(base)));
        Wait { backoff, ..Wait::default() }
    }

    #[test]
    fn both_ways_of_listing_types_are_read() {
        let expected = Ok(vec![Bracket::Retry {
            types: vec!["ValueError".into(), "KeyError".into()],
            retries: 3,
            wait: seconds(30),
        }]);
        assert_eq!(parse_brackets("[(ValueError, KeyError) -> retry: 3, backoff: 30s]"), expected);
        assert_eq!(parse_brackets("[ValueError, KeyError -> retry: 3, backoff: 30]"), expected);
    }

    #[test]
    fn fields_come_in_any_order_over_several_lines_and_the_last_one_wins() {
        let text = "[\n  backoff: 1m,\n  retry: 1, retry: 2\n]";
        let expected = Bracket::Retry { types: vec![], retries: 2, wait: seconds(60) };
        assert_eq!(parse_brackets(text), Ok(vec![expected]));
    }

    #[test]
    fn delays_can_be_capped_spread_and_bounded() {
        let text = "[retry: 9, backoff: 1s, multiplier: 1.5, max_delay: 1m, jitter: 20%, max_elapsed: 1h, \
             on_exhausted: dead_letter]";
        let growth = Growth { multiplier: 1.5, ..Growth::doubling(Duration::from_secs(1)) };
        let wait = Wait {
            backoff: Some(growth),
            max_delay: Some(Duration::from_secs(60)),
            jitter: Some(Jitter::Proportional(0.2)),
            max_elapsed: Some(Duration::from_secs(3600)),
            on_exhausted: Some(WhenExhausted::DeadLetter),
        };
        let expected = Bracket::Retry { types: vec![], retries: 9, wait };
        assert_eq!(parse_brackets(text), Ok(vec![expected]));
    }

    #[test]
    fn what_follows_when_attempts_run_out_is_read_in_every_form() {
        for (text, wanted) in [
            ("fail", WhenExhausted::Fail),
            ("pause", WhenExhausted::Pause(None)),
            ("pause 2h", WhenExhausted::Pause(Some(Duration::from_secs(7_200)))),
            ("pause 90", WhenExhausted::Pause(Some(Duration::from_secs(90)))),
            ("dead_letter", WhenExhausted::DeadLetter),
            ("compensate", WhenExhausted::Compensate),
        ] {
            let wait = Wait { on_exhausted: Some(wanted), ..Wait::default() };
            let expected = Bracket::Retry { types: vec![], retries: 1, wait };
            let text = format!("[on_exhausted: {text}, retry: 1]");
            assert_eq!(parse_brackets(&text), Ok(vec![expected]), "{text}");
        }
    }

    #[test]
    fn a_fallback_is_a_value_or_an_action() {
        for (text, wanted) in [
            ("@charge.later", Fallback::ByActivity("charge.later".to_string())),
            ("-1.5", Fallback::Value(json!(-1.5))),
            (r#"{"seats": ["12]A", null]}"#, Fallback::Value(json!({"seats": ["12]A", null]}))),
            ("None", Fallback::Value(json!(null))),
            ("False", Fallback::Value(json!(false))),
        ] {
            let text = format!("[retry: 1] [ fallback : {text} ]");
            let brackets = parse_brackets(&text).unwrap();
            assert_eq!(brackets[1], Bracket::Fallback(wanted), "{text}");
        }
    }

    #[test]
    fn a_timeout_of_zero_is_accepted_beside_one_that_bounds() {
        let expected =
            vec![Bracket::Timeout(Duration::ZERO), Bracket::Timeout(Duration::from_secs(5))];
        assert_eq!(parse_brackets("[timeout: 0] [timeout: 5]"), Ok(expected));
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
            ("[timeout: 0]", "timeout: 0 leaves no time (column 1)"),
            (
                "[retry: 3, backoff: 1s, jitter: 1]",
                r#"jitter: "1" is unknown; use none, full, equal, decorrelated or a share such as 20% (column 33)"#,
            ),
            (
                "[retry: 3, backoff: 1s, jitter: ful]",
                r#"jitter: "ful" is unknown; did you mean "full"? (column 33)"#,
            ),
            (
                "[retry: 3, backoff: 1s, jitter: 120%]",
                r#"jitter: "120%" is not from 0% to 100% (column 33)"#,
            ),
            (
                "[retry: 3, max_delay: 5s]",
                "max_delay: changes nothing without a backoff; write backoff: 1s (column 1)",
            ),
            (
                "[retry: 3, backoff: 1s linear, multiplier: 3]",
                "multiplier: a linear backoff adds, it does not multiply (column 1)",
            ),
            (
                "[retry: 3, backoff: 1s, multiplier: 0]",
                r#"multiplier: "0" is not a finite number greater than 0 (column 37)"#,
            ),
            (
                "[retry: 3, on_exhausted: shrug]",
                r#"on_exhausted: "shrug" is unknown; use fail, pause, pause 2h, dead_letter or compensate (column 26)"#,
            ),
            (
                "[retry: 3, on_exhausted: compensat]",
                r#"on_exhausted: "compensat" is unknown; did you mean "compensate"? (column 26)"#,
            ),
            (
                "[retry: 3, on_exhausted: pause 0]",
                "on_exhausted: pause: 0 allows no time to decide; leave it out (column 32)",
            ),
            (
                "[retry: 3, on_exhausted: pause 5x]",
                r#"on_exhausted: pause: "5x" has the unknown unit "x"; use ms, s, m, h or d (column 32)"#,
            ),
            (
                "[retry: 3, fallback: 0]",
                "fallback: write it in a bracket of its own, [fallback: @later] (column 12)",
            ),
            (
                "[fallback: later]",
                "fallback: expected a value such as 0, or an action such as @later (column 12)",
            ),
            (
                "[fallback: @later(n=1)]",
                "fallback: it gets the arguments of the call; write its name alone, [fallback: @later] (column 12)",
            ),
            ("[fallback: @]", "fallback: expected the name of an action behind @ (column 12)"),
            ("[fallback: 1 2]", r#"expected "]", found "2" (column 14)"#),
            (
                "[retry: 3, max_elapsed: 0]",
                "max_elapsed: 0 allows no retries; leave it out (column 25)",
            ),
            ("[retry 3]", r#"expected ":", found "3" (column 8)"#),
        ] {
            assert_eq!(parse_brackets(text).unwrap_err().message, message, "{text}");
        }
    }
}
