//! Which failures are one problem: a short name that equal troubles of one activity share.
//!
//! Ten thousand calls that failed because one bank is down are one decision for an operator. They
//! are grouped by the activity, the type and the code of the failure, and its message without what
//! differs from call to call:
//!
//! | in the message                                              | becomes  |
//! |-------------------------------------------------------------|----------|
//! | a number, with sign, decimals and exponent                  | `<n>`    |
//! | `0x` and hex digits; 8 hex digits or more of both kinds     | `<hex>`  |
//! | a uuid; a word of 16 characters or more with digits in it; one of 40 or more | `<id>` |
//! | quoted text                                                 | `<text>` |
//! | white space and control characters, any number of them      | a space  |
//!
//! Digits inside of a shorter word are a number as well: `order42` is `order<n>`. An apostrophe
//! inside of a word quotes nothing, and neither does a quotation mark without a second one.
//!
//! The rules are a version, which leads the name: two versions never share a name, so groups that
//! were stored before a change of the rules stay what they are. Messages are hostile: they are cut
//! before they are read, and nothing in them is an instruction.

use std::fmt;

use crate::Failure;
use crate::retry::mix;

/// The rules that a fingerprint was made by.
const VERSION: u32 = 1;

/// How many characters of a message are looked at.
const READ: usize = 4_096;

/// How many characters of a problem are shown to people.
const SHOWN: usize = 200;

/// What calls that failed in the same way have in common.
///
/// ```
/// use resurgam_core::{Failure, Fingerprint};
///
/// let failure = |text: &str| Failure::of_type("BankDown", text);
/// let one = Fingerprint::of("charge", Some(&failure("no answer from 'eu-1' after 312 ms")));
/// let other = Fingerprint::of("charge", Some(&failure("no answer from 'us-7' after 9.5 ms")));
/// assert_eq!(one, other);
/// assert_eq!(one.error, "BankDown: no answer from <text> after <n> ms");
/// assert!(one.key.starts_with("1:"));
/// assert_ne!(one, Fingerprint::of("refund", Some(&failure("no answer from 'eu-1' after 3 ms"))));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fingerprint {
    /// What is stored and compared: the version of the rules, and a hash.
    pub key: String,
    /// The problem in words, without what differs from call to call.
    pub error: String,
}

impl Fingerprint {
    /// Of calls that were paused by a program that knew no fingerprints.
    pub const UNKNOWN: &str = "0:unknown";

    /// The fingerprint of a call of this activity that failed so; `None` when it has not failed.
    pub fn of(activity: &str, failure: Option<&Failure>) -> Self {
        let Some(failure) = failure else {
            let key = key([activity, "", "", ""]);
            return Fingerprint { key, error: "it has not failed".to_string() };
        };
        let message = normalised(&failure.message);
        let type_name = failure.type_name.as_deref().unwrap_or_else(|| failure.kind.name());
        let code = failure.code.as_deref().unwrap_or_default();
        let key = key([activity, type_name, code, &message]);
        let code = if code.is_empty() { String::new() } else { format!(" [{code}]") };
        let between = if message.is_empty() { "" } else { ": " };
        Fingerprint { key, error: shown(&format!("{type_name}{code}{between}{message}")) }
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)
    }
}

/// The name of what these parts have in common.
fn key(parts: [&str; 4]) -> String {
    let mut hash = u64::from(VERSION);
    for part in parts {
        hash = part.bytes().fold(hash, |hash, byte| mix(hash ^ u64::from(byte)));
        // So that no two parts are another two with the border elsewhere.
        hash = mix(hash ^ 0x100);
    }
    format!("{VERSION}:{:012x}", hash >> 16)
}

/// As much as people want to read, on one line.
fn shown(text: &str) -> String {
    let plain = text.chars().map(|char| if char.is_control() { ' ' } else { char });
    if text.chars().count() <= SHOWN {
        return plain.collect();
    }
    plain.take(SHOWN - 1).chain(['…']).collect()
}

/// A message without what differs from call to call.
fn normalised(message: &str) -> String {
    let chars: Vec<char> = message.chars().take(READ).collect();
    let mut scan = Scan { chars: &chars, at: 0, text: String::new() };
    while let Some(char) = scan.peek(0) {
        if char.is_whitespace() || char.is_control() {
            scan.space();
        } else if char.is_alphanumeric() {
            scan.word();
        } else if let Some(length) = scan.quoted(char) {
            scan.replace(length, "<text>");
        } else if matches!(char, '-' | '+') && scan.is_sign() {
            scan.at += 1;
        } else {
            scan.keep();
        }
    }
    scan.text.truncate(scan.text.trim_end().len());
    scan.text
}

/// A message on its way.
struct Scan<'m> {
    chars: &'m [char],
    at: usize,
    text: String,
}

impl Scan<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn keep(&mut self) {
        self.text.extend(self.peek(0));
        self.at += 1;
    }

    fn replace(&mut self, length: usize, by: &str) {
        self.text.push_str(by);
        self.at += length;
    }

    fn space(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with(' ') {
            self.text.push(' ');
        }
        self.at += 1;
    }

    /// True when the character before this one is part of a word.
    fn follows_word(&self) -> bool {
        self.at > 0 && self.chars[self.at - 1].is_alphanumeric()
    }

    /// True when what stands here belongs to the number after it.
    fn is_sign(&self) -> bool {
        !self.follows_word() && self.peek(1).is_some_and(char::is_numeric)
    }

    /// How long the quoted text is that begins here, with its quotation marks.
    fn quoted(&self, open: char) -> Option<usize> {
        let close: &[char] = match open {
            '"' => &['"'],
            '\'' => &['\''],
            '`' => &['`'],
            '“' => &['”'],
            '„' => &['“', '”'],
            '‘' => &['’'],
            '«' => &['»'],
            _ => return None,
        };
        if open == '\'' && self.follows_word() {
            return None;
        }
        let is_word = |char: Option<&char>| char.is_some_and(|char| char.is_alphanumeric());
        let rest = &self.chars[self.at..];
        let mut place = 1;
        while let Some(char) = rest.get(place) {
            match char {
                '\\' => place += 1,
                // The apostrophe of "can't" ends nothing.
                '\'' | '’' if is_word(rest.get(place + 1)) => {}
                char if close.contains(char) => return Some(place + 1),
                _ => {}
            }
            place += 1;
        }
        None
    }

    /// A word, or an id, or whatever begins with a letter or a digit.
    fn word(&mut self) {
        let rest = &self.chars[self.at..];
        if is_uuid(rest) {
            return self.replace(UUID.iter().sum::<usize>() + UUID.len() - 1, "<id>");
        }
        let length = rest.iter().take_while(|char| char.is_alphanumeric()).count();
        let word = &rest[..length];
        if is_hex(word) {
            return self.replace(length, "<hex>");
        }
        if is_token(word) {
            return self.replace(length, "<id>");
        }
        let end = self.at + length;
        while self.at < end {
            match self.peek(0).is_some_and(char::is_numeric) {
                true => self.number(),
                false => self.keep(),
            }
        }
    }

    /// A number with decimals and exponent; dots and commas between digits are part of it.
    fn number(&mut self) {
        let digits = |scan: &mut Self| {
            while scan.peek(0).is_some_and(char::is_numeric) {
                scan.at += 1;
            }
        };
        digits(self);
        while matches!(self.peek(0), Some('.' | ',')) && self.peek(1).is_some_and(char::is_numeric)
        {
            self.at += 1;
            digits(self);
        }
        if matches!(self.peek(0), Some('e' | 'E')) {
            let sign = usize::from(matches!(self.peek(1), Some('-' | '+')));
            if self.peek(1 + sign).is_some_and(char::is_numeric) {
                self.at += 1 + sign;
                digits(self);
            }
        }
        self.text.push_str("<n>");
    }
}

/// How many hex digits stand between the hyphens of a uuid.
const UUID: [usize; 5] = [8, 4, 4, 4, 12];

fn is_uuid(rest: &[char]) -> bool {
    let mut place = 0;
    for (nth, length) in UUID.into_iter().enumerate() {
        if nth > 0 {
            if rest.get(place) != Some(&'-') {
                return false;
            }
            place += 1;
        }
        let part = rest.get(place..place + length);
        if !part.is_some_and(|part| part.iter().all(char::is_ascii_hexdigit)) {
            return false;
        }
        place += length;
    }
    !rest.get(place).is_some_and(|next| next.is_alphanumeric())
}

fn is_hex(word: &[char]) -> bool {
    if let ['0', 'x' | 'X', digits @ ..] = word {
        return !digits.is_empty() && digits.iter().all(char::is_ascii_hexdigit);
    }
    let has = |kind: fn(&char) -> bool| word.iter().any(kind);
    word.len() >= 8
        && word.iter().all(char::is_ascii_hexdigit)
        && has(char::is_ascii_digit)
        && has(char::is_ascii_alphabetic)
}

/// True for what nobody writes as a word: long, with digits in it, or very long.
fn is_token(word: &[char]) -> bool {
    let has = |kind: fn(&char) -> bool| word.iter().any(kind);
    let is_long = match has(char::is_ascii_digit) {
        true => word.len() >= 16,
        false => word.len() >= 40,
    };
    is_long && word.iter().all(char::is_ascii) && has(char::is_ascii_alphabetic)
}
