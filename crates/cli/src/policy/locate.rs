//! Where in a text the field is that a problem names.
//!
//! A problem says `rules[2].on.types`; people want a line and a column. serde forgets positions,
//! so the text of a policy is walked once more and becomes a tree of places. The JSON walker
//! relies on text that was parsed before: it skips what it need not understand, and does not
//! check anything again. TOML brings positions of its own and becomes the same tree, see
//! [`super::toml_text`].

use std::collections::BTreeMap;
use std::ops::Range;

/// A value's place in the text, with the places of what is inside it.
#[derive(Debug, PartialEq)]
pub(crate) struct Place {
    /// Bytes from the start of the field's name, or of the value where there is no name, to the
    /// end of the value.
    pub(crate) span: Range<usize>,
    pub(crate) inside: Inside,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Inside {
    Nothing,
    Fields(BTreeMap<String, Place>),
    Entries(Vec<Place>),
}

/// The places of a JSON text, and what it says twice.
#[derive(Debug)]
pub(crate) struct Json {
    pub(crate) root: Place,
    /// Fields that their object already had. JSON lets the last one win; people who wrote both
    /// meant only one of them.
    pub(crate) repeated: Vec<Repeated>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Repeated {
    pub(crate) name: String,
    pub(crate) span: Range<usize>,
}

impl Place {
    /// The place of the field that a path such as `rules[2].on.types` leads to. Where the path
    /// leads nowhere (a field is missing), the place of the last value it passed.
    pub(crate) fn find(&self, path: &str) -> &Range<usize> {
        match self.step(path) {
            Some((inner, rest)) => inner.find(rest),
            None => &self.span,
        }
    }

    /// The value one step along the path, and the rest of the path.
    fn step<'p>(&self, path: &'p str) -> Option<(&Place, &'p str)> {
        match &self.inside {
            Inside::Nothing => None,
            Inside::Entries(entries) => {
                let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
                Some((entries.get(index.parse::<usize>().ok()?)?, after_dot(rest)))
            }
            // A name may hold dots and brackets itself, so every end that a step may have is
            // tried, the longest name first.
            Inside::Fields(fields) => {
                let inner_ends = path.rmatch_indices(['.', '[']).map(|(end, _)| end);
                let mut ends = std::iter::once(path.len()).chain(inner_ends);
                ends.find_map(|end| Some((fields.get(&path[..end])?, after_dot(&path[end..]))))
            }
        }
    }
}

fn after_dot(path: &str) -> &str {
    path.strip_prefix('.').unwrap_or(path)
}

/// The places of a text that is known to be JSON.
pub(crate) fn json(text: &str) -> Json {
    let mut walker = Walker { text, at: 0, repeated: Vec::new() };
    let root = walker.value();
    Json { root, repeated: walker.repeated }
}

struct Walker<'a> {
    text: &'a str,
    at: usize,
    repeated: Vec<Repeated>,
}

impl Walker<'_> {
    fn value(&mut self) -> Place {
        self.skip_space();
        let start = self.at;
        let inside = match self.peek() {
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'"') => self.string(),
            _ => self.word(),
        };
        Place { span: start..self.at, inside }
    }

    fn object(&mut self) -> Inside {
        let mut fields = BTreeMap::new();
        self.at += 1;
        while self.goes_on(b'}') {
            let key = self.at;
            self.string();
            let quoted = self.text.get(key..self.at).unwrap_or_default();
            let name: String = serde_json::from_str(quoted).unwrap_or_default();
            self.skip_space();
            self.eat(b':');
            let mut place = self.value();
            place.span.start = key;
            if fields.contains_key(&name) {
                self.repeated.push(Repeated { name: name.clone(), span: place.span.clone() });
            }
            fields.insert(name, place);
        }
        Inside::Fields(fields)
    }

    fn array(&mut self) -> Inside {
        let mut entries = Vec::new();
        self.at += 1;
        while self.goes_on(b']') {
            entries.push(self.value());
        }
        Inside::Entries(entries)
    }

    /// Moves to the next entry, or past the closing bracket.
    fn goes_on(&mut self, close: u8) -> bool {
        self.skip_space();
        self.eat(b',');
        self.skip_space();
        !self.eat(close) && self.peek().is_some()
    }

    fn string(&mut self) -> Inside {
        self.at += 1;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at = (self.at + 1).min(self.text.len());
        Inside::Nothing
    }

    /// A number, `true`, `false` or `null`.
    fn word(&mut self) -> Inside {
        let ends = |byte: &u8| byte.is_ascii_whitespace() || b",]}".contains(byte);
        let rest = &self.text.as_bytes()[self.at..];
        // At least one byte, so that the walk ends whatever stands here.
        let length = rest.iter().position(ends).unwrap_or(rest.len()).max(1);
        self.at = (self.at + length).min(self.text.len());
        Inside::Nothing
    }

    fn skip_space(&mut self) {
        let rest = &self.text.as_bytes()[self.at.min(self.text.len())..];
        self.at += rest.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(rest.len());
    }

    fn eat(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    const POLICY: &str = r#"{
  "backoff": {"type": "fixed", "delay": 5},
  "rules": [
    {"then": "fail"},
    {"on": {"types": ["A", "B\"}"], "a.b[0]": null}}
  ]
}"#;

    fn found(path: &str) -> &'static str {
        let span = json(POLICY).root.find(path).clone();
        &POLICY[span]
    }

    #[test]
    fn a_path_leads_to_the_field_with_its_name() {
        assert_eq!(found("backoff.delay"), r#""delay": 5"#);
        assert_eq!(found("rules[0]"), r#"{"then": "fail"}"#);
        assert_eq!(found("rules[1].on.types"), r#""types": ["A", "B\"}"]"#);
        assert_eq!(found("rules[1].on.types[1]"), r#""B\"}""#);
    }

    #[test]
    fn a_name_with_dots_and_brackets_is_found() {
        assert_eq!(found("rules[1].on.a.b[0]"), r#""a.b[0]": null"#);
    }

    #[test]
    fn a_missing_field_is_placed_at_what_should_hold_it() {
        assert_eq!(found("rules[0].max_delay"), r#"{"then": "fail"}"#);
        assert_eq!(found("backoff.initial"), r#""backoff": {"type": "fixed", "delay": 5}"#);
        assert_eq!(found("rules[7].on"), found("rules"));
        assert_eq!(found(""), POLICY);
        assert_eq!(found("timeouts.attempt"), POLICY);
    }

    #[test]
    fn a_field_that_is_given_twice_is_noticed() {
        let text = r#"{"a": 1, "b": {"a": 2}, "a" : 3}"#;
        let places = json(text);
        let [again] = places.repeated.as_slice() else { panic!("{places:?}") };
        assert_eq!((again.name.as_str(), &text[again.span.clone()]), ("a", "\"a\" : 3"));
        assert_eq!(&text[places.root.find("a").clone()], "\"a\" : 3");
    }

    #[test]
    fn broken_text_ends_the_walk_without_harm() {
        for end in 0..=POLICY.len() {
            json(&POLICY[..end]);
        }
        for text in [
            "", "\"", "\"\\", "{", "{\"a\"", "[,", "}", "{\"a\":}", "{:", "[[[", "[}", "{\"é",
            "{\"\\é",
        ] {
            json(text);
        }
    }
}
