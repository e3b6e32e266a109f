//! Keys of gates, and patterns that settings are for.

use std::fmt;

/// How many bytes a key has at most.
pub const LONGEST_KEY: usize = 200;

/// Why a text cannot be the key of a gate, as the rest of a sentence that begins with it.
///
/// ```
/// use resurgam_core::gate::check_key;
///
/// assert_eq!(check_key("host:api.example.com"), Ok(()));
/// assert_eq!(check_key(""), Err("is empty; a gate's key has 1 to 200 bytes".to_string()));
/// ```
pub fn check_key(key: &str) -> Result<(), String> {
    if key.is_empty() {
        return Err(format!("is empty; a gate's key has 1 to {LONGEST_KEY} bytes"));
    }
    if key.len() > LONGEST_KEY {
        let len = key.len();
        return Err(format!("has {len} bytes; a gate's key has 1 to {LONGEST_KEY} bytes"));
    }
    if key.chars().any(char::is_control) {
        return Err("has a control character; a gate's key is a line of text".to_string());
    }
    Ok(())
}

/// What stands before the first colon of a key: the keys that a template makes have it in common.
///
/// ```
/// use resurgam_core::gate::prefix_of;
///
/// assert_eq!(prefix_of("host:api.example.com"), Some("host"));
/// assert_eq!(prefix_of("stripe"), None);
/// ```
pub fn prefix_of(key: &str) -> Option<&str> {
    key.split_once(':').map(|(prefix, _)| prefix)
}

/// The keys that settings are for: one, or all that begin with a prefix (`host:*`).
///
/// ```
/// use resurgam_core::gate::KeyPattern;
///
/// let hosts = KeyPattern::parse("host:*").unwrap();
/// assert!(hosts.matches("host:api.example.com") && !hosts.matches("hostess"));
/// assert!(KeyPattern::parse("host:*:443").is_err());
///
/// // The more of a key a pattern names, the more it says.
/// let all = ["*", "host:*", "host:a"].map(|text| KeyPattern::parse(text).unwrap());
/// let best = all.iter().filter(|pattern| pattern.matches("host:a")).max();
/// assert_eq!(best.unwrap().to_string(), "host:a");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyPattern {
    /// All keys that begin so.
    Prefix(String),
    /// One key.
    Exact(String),
}

impl KeyPattern {
    /// Reads a pattern. The error is the rest of a sentence that begins with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        check_key(text)?;
        match text.split_once('*') {
            None => Ok(KeyPattern::Exact(text.to_string())),
            Some((prefix, "")) => Ok(KeyPattern::Prefix(prefix.to_string())),
            Some(_) => {
                Err("has a star that is not at its end; write a key, or PREFIX:*".to_string())
            }
        }
    }

    /// True when it is about this key.
    pub fn matches(&self, key: &str) -> bool {
        match self {
            KeyPattern::Exact(own) => own == key,
            KeyPattern::Prefix(prefix) => key.starts_with(prefix.as_str()),
        }
    }
}

impl fmt::Display for KeyPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyPattern::Exact(key) => f.write_str(key),
            KeyPattern::Prefix(prefix) => write!(f, "{prefix}*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn a_longer_prefix_says_more_than_a_shorter_one_and_a_key_says_most() {
        let mut patterns =
            ["host:a", "*", "host:*", "ho*"].map(|text| KeyPattern::parse(text).unwrap());
        patterns.sort();
        assert_eq!(patterns.map(|pattern| pattern.to_string()), ["*", "ho*", "host:*", "host:a"]);
    }

    #[test]
    fn keys_are_bounded_lines_of_text() {
        assert!(check_key(&"k".repeat(200)).is_ok());
        let message = check_key(&"k".repeat(201)).unwrap_err();
        assert_eq!(message, "has 201 bytes; a gate's key has 1 to 200 bytes");
        assert!(check_key("two\nlines").unwrap_err().contains("control character"));
    }
}
