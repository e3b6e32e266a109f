//! Takes secrets out of what actions say.
//!
//! A secret seldom comes back as it is. It is quoted in JSON, sits in the base64 of an
//! `Authorization` header or in the query of an address, or loses its line breaks; so each is
//! looked for in all of these forms, as a whole and line by line. What is hidden is replaced by the
//! name of its variable.
//!
//! This guards against accidents. An action that wants to tell a secret can: reversed, in pieces,
//! or as its result, which is not masked because it is what the action is for.

use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;

use base64ct::{Base64Unpadded, Encoding};
use serde_json::{Map, Value};
use zeroize::Zeroizing;

/// The fewest characters of a secret: one of a letter or two is in every word, and is none.
const SECRET: usize = 4;

/// The fewest characters of a line of a secret that is hidden where it stands alone. Shorter ones,
/// such as `-` or `}`, are in every other text.
const LINE: usize = 8;

/// The fewest characters of base64 that is looked for across line breaks.
const BROKEN: usize = 16;

/// The secrets of a call, by the names of their variables.
#[derive(Default)]
pub(super) struct Mask {
    secrets: Vec<(String, Zeroizing<String>)>,
    /// Made when there is something to mask, which is seldom.
    forms: OnceLock<Vec<Form>>,
    /// Those that may be broken into lines.
    broken: OnceLock<Vec<Form>>,
}

/// A form of a secret and what stands in its place.
struct Form {
    text: Zeroizing<String>,
    mask: String,
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.secrets.iter().map(|(name, _)| name)).finish()
    }
}

impl Mask {
    pub(super) fn new(secrets: Vec<(String, Zeroizing<String>)>) -> Self {
        Mask { secrets, ..Mask::default() }
    }

    /// The secrets in clear, by the names of their variables.
    pub(super) fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.secrets.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// A text without secrets in it.
    pub(super) fn text(&self, text: &str) -> String {
        let mut text = text.to_string();
        for Form { text: form, mask } in self.forms() {
            if text.contains(form.as_str()) {
                text = text.replace(form.as_str(), mask);
            }
        }
        for Form { text: form, mask } in self.broken() {
            while let Some(place) = find_broken(&text, form) {
                text.replace_range(place, mask);
            }
        }
        text
    }

    /// A value without secrets in its texts, however they were written as JSON.
    pub(super) fn value(&self, value: Value) -> Value {
        match value {
            _ if self.secrets.is_empty() => value,
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(list) => list.into_iter().map(|value| self.value(value)).collect(),
            Value::Object(fields) => Value::Object(self.fields(fields)),
            // A secret may be a number, too.
            Value::Number(number) => {
                let text = self.text(&number.to_string());
                serde_json::from_str(&text).unwrap_or(Value::String(text))
            }
            Value::Null | Value::Bool(_) => value,
        }
    }

    pub(super) fn fields(&self, fields: Map<String, Value>) -> Map<String, Value> {
        fields.into_iter().map(|(name, value)| (self.text(&name), self.value(value))).collect()
    }

    /// The base64 of every secret that is long enough to be broken into lines.
    fn broken(&self) -> &[Form] {
        self.broken.get_or_init(|| {
            let of = |(name, secret): &(String, Zeroizing<String>)| {
                let form = |text| Form { text, mask: format!("[{name}]") };
                base64(secret.trim()).into_iter().map(form).collect::<Vec<_>>()
            };
            let forms = self.secrets.iter().flat_map(of);
            forms.filter(|form| form.text.len() >= BROKEN).collect()
        })
    }

    /// Every form of every secret, the longest first: what is part of another one comes after it.
    fn forms(&self) -> &[Form] {
        self.forms.get_or_init(|| {
            let of = |(name, secret): &(String, Zeroizing<String>)| {
                let form = |text| Form { text, mask: format!("[{name}]") };
                forms_of(secret).into_iter().map(form).collect::<Vec<_>>()
            };
            let mut forms: Vec<Form> = self.secrets.iter().flat_map(of).collect();
            forms.sort_by(|one, other| {
                let by_length = other.text.len().cmp(&one.text.len());
                by_length.then_with(|| one.text.as_str().cmp(other.text.as_str()))
            });
            forms.dedup_by(|one, other| one.text == other.text);
            forms
        })
    }
}

/// The forms of one secret: of the whole, and of each of its lines.
fn forms_of(secret: &str) -> Vec<Zeroizing<String>> {
    let whole = [secret, secret.trim()].into_iter().map(|text| (text, SECRET));
    let lines = secret.lines().map(|line| (line.trim(), LINE));
    let long = |(text, least): &(&str, usize)| text.chars().count() >= *least;
    let parts = whole.chain(lines).filter(long);
    let forms = parts.flat_map(|(text, _)| {
        let plain = Zeroizing::new(text.to_string());
        [vec![plain], json(text), percent(text), base64(text)].concat()
    });
    forms.filter(|form| form.chars().count() >= SECRET).collect()
}

/// A text as it looks inside of a text in JSON, as various writers write it, and inside of JSON in
/// JSON.
fn json(text: &str) -> Vec<Zeroizing<String>> {
    let once = quoted(text);
    let slashes = Zeroizing::new(once.replace('/', "\\/"));
    let [lower, upper] = [false, true].map(|upper| ascii(&once, upper));
    vec![lower, upper, slashes, quoted(&once), once]
}

/// A text in JSON with everything escaped that is not ASCII.
fn ascii(quoted: &str, upper: bool) -> Zeroizing<String> {
    let mut ascii = Zeroizing::new(String::new());
    for c in quoted.chars() {
        match c.is_ascii() {
            true => ascii.push(c),
            false => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| match upper {
                true => ascii.push_str(&format!("\\u{unit:04X}")),
                false => ascii.push_str(&format!("\\u{unit:04x}")),
            }),
        }
    }
    ascii
}

fn quoted(text: &str) -> Zeroizing<String> {
    let quoted = Zeroizing::new(Value::from(text).to_string());
    Zeroizing::new(quoted[1..quoted.len() - 1].to_string())
}

/// A text as it looks in an address, as various writers write it: what they leave as it is differs.
fn percent(text: &str) -> Vec<Zeroizing<String>> {
    let encoded = |kept: &str, lower: bool, plus: bool| {
        let byte = |byte: u8| match char::from(byte) {
            ' ' if plus => "+".to_string(),
            c if c.is_ascii_alphanumeric() || "-_.~".contains(c) || kept.contains(c) => {
                c.to_string()
            }
            _ if lower => format!("%{byte:02x}"),
            _ => format!("%{byte:02X}"),
        };
        Zeroizing::new(text.bytes().map(byte).collect::<String>())
    };
    let forms = [
        encoded("", false, false),
        encoded("", true, false),
        encoded("/", false, false),
        encoded("!'()*", false, false),
        encoded("*", false, true),
    ];
    forms.to_vec()
}

/// A text as it looks in base64, of either alphabet. Where it stands inside of a longer text, its
/// bytes begin at one of three places of a group of four characters; what the neighbours have part
/// in at its ends is left out.
fn base64(text: &str) -> Vec<Zeroizing<String>> {
    let mut forms = Vec::new();
    for before in 0..3 {
        let bytes = Zeroizing::new([&[0; 2][..before], text.as_bytes()].concat());
        let encoded = Zeroizing::new(Base64Unpadded::encode_string(&bytes));
        let inside = (before * 8).div_ceil(6)..bytes.len() * 8 / 6;
        forms.push(Zeroizing::new(encoded[inside].to_string()));
        if before == 0 {
            forms.push(encoded.clone());
            let padding = "=".repeat((4 - encoded.len() % 4) % 4);
            forms.push(Zeroizing::new(format!("{}{padding}", *encoded)));
        }
    }
    let url_safe =
        |form: &Zeroizing<String>| Zeroizing::new(form.replace('+', "-").replace('/', "_"));
    let others: Vec<Zeroizing<String>> = forms.iter().map(url_safe).collect();
    forms.extend(others);
    forms
}

/// Where a form of ASCII stands in a text, broken into lines or not. The breaks may be escaped, as
/// they are in JSON.
fn find_broken(text: &str, form: &str) -> Option<Range<usize>> {
    let mut joined = Zeroizing::new(String::new());
    let mut places = Vec::new();
    let mut rest = text.char_indices().peekable();
    while let Some((place, c)) = rest.next() {
        let is_break = |next: &(usize, char)| matches!(next.1, 'n' | 'r' | 't');
        if c == '\\' && rest.next_if(is_break).is_some() || c.is_whitespace() {
            continue;
        }
        joined.push(c);
        places.extend(std::iter::repeat_n(place, c.len_utf8()));
    }
    let begin = joined.find(form)?;
    let last = begin + form.len() - 1;
    Some(places[begin]..places[last] + 1)
}

#[cfg(test)]
mod tests {
    use base64ct::{Base64, Base64Url};
    use resurgam_watchdog::test;
    use serde_json::json;

    use super::*;

    const SECRET: &str = "s3cr/t+übér key?\nsecond \"line\" of it\n-\nthird-line-of-it\n";

    fn mask(secret: &str) -> Mask {
        Mask::new(vec![("TOKEN".to_string(), secret.to_string().into())])
    }

    /// Pieces of the secret that must not be left of anything.
    fn tells(text: &str) -> bool {
        ["cr/t", "second", "third", "bér", "czNj"].iter().any(|piece| text.contains(piece))
    }

    #[test]
    fn a_secret_is_hidden_in_every_form_that_it_comes_in() {
        let mask = mask(SECRET);
        let quoted = Value::from(SECRET).to_string();
        let one_line = SECRET.replace('\n', " ");
        let forms = [
            SECRET.to_string(),
            SECRET.trim().to_string(),
            quoted.clone(),
            Value::from(quoted.as_str()).to_string(),
            quoted.replace('/', "\\/"),
            quoted.replace('ü', "\\u00fc").replace('é', "\\u00e9"),
            quoted.replace('ü', "\\u00FC").replace('é', "\\u00E9"),
            one_line,
            "third-line-of-it".to_string(),
            "s3cr%2Ft%2B%C3%BCb%C3%A9r%20key%3F%0Asecond%20%22line%22%20of%20it".to_string(),
            "s3cr%2ft%2b%c3%bcb%c3%a9r%20key%3f%0asecond%20%22line%22%20of%20it".to_string(),
            "s3cr%2Ft%2B%C3%BCb%C3%A9r+key%3F".to_string(),
            "s3cr/t%2B%C3%BCb%C3%A9r%20key%3F".to_string(),
        ];
        for form in forms {
            let masked = mask.text(&format!("no <{form}> here"));
            assert!(masked.contains("[TOKEN]") && !tells(&masked), "{form} gives {masked}");
        }
    }

    #[test]
    fn a_secret_is_hidden_in_base64_that_is_broken_into_lines() {
        let secret = "0123456789abcdefghijklmnopqrstuvwxyz".repeat(4);
        let mask = mask(&secret);
        for before in ["", "u", "us", "user:"] {
            let encoded = Base64::encode_string(format!("{before}{secret}").as_bytes());
            for (length, end) in [(76, "\n"), (64, "\r\n"), (20, "\\n"), (76, "\n  ")] {
                let lines: Vec<&str> = encoded
                    .as_bytes()
                    .chunks(length)
                    .map(|line| std::str::from_utf8(line).unwrap())
                    .collect();
                let masked = mask.text(&format!("Basic {}{end}!", lines.join(end)));
                assert!(masked.contains("[TOKEN]"), "{before:?} {length} gives {masked}");
                assert!(masked.len() < 40, "{before:?} {length} gives {masked}");
            }
        }
    }

    #[test]
    fn a_secret_is_hidden_wherever_it_stands_in_base64() {
        let secret = "correct horse battery staple ~~~???";
        let mask = mask(secret);
        for before in ["", "u", "us", "user:", "user: ", "a user:"] {
            for after in ["", "!", "!!", "!!!"] {
                let clear = format!("{before}{secret}{after}");
                for encoded in [
                    Base64::encode_string(clear.as_bytes()),
                    Base64Url::encode_string(clear.as_bytes()),
                    Base64Unpadded::encode_string(clear.as_bytes()),
                ] {
                    let masked = mask.text(&format!("Basic {encoded}"));
                    assert!(masked.contains("[TOKEN]"), "{encoded} gives {masked}");
                    // What is left holds no more of it than a neighbour has part in.
                    let left = masked.replace("Basic ", "").replace("[TOKEN]", "");
                    assert!(left.len() <= encoded.len() - secret.len(), "{masked}");
                }
            }
        }
        let long = "x1y2z3".repeat(40);
        let encoded = Base64::encode_string(long.as_bytes());
        let broken = encoded.as_bytes().chunks(76).map(String::from_utf8_lossy);
        let broken = broken.collect::<Vec<_>>().join("\n");
        let masked = self::mask(&long).text(&broken);
        assert!(masked.lines().all(|line| line == "[TOKEN]"), "{masked}");
    }

    #[test]
    fn short_secrets_and_short_lines_are_in_every_text_and_stay() {
        assert_eq!(mask("abc").text("abc abcd"), "abc abcd");
        assert_eq!(mask("abcd").text("abc abcd"), "abc [TOKEN]");
        assert_eq!(mask("{\n-\n}\nlong-enough").text("{ - }"), "{ - }");
        assert_eq!(mask("{\n1234567\nlong-enough").text("1234567"), "1234567");
        assert_eq!(mask("{\n12345678\nlong-enough").text("12345678"), "[TOKEN]");
    }

    #[test]
    fn the_longest_form_is_hidden_first_and_each_by_its_own_name() {
        let secrets = [("A", "hunter2"), ("B", "hunter2-and-more")];
        let mask = Mask::new(
            secrets.map(|(name, value)| (name.to_string(), value.to_string().into())).to_vec(),
        );
        assert_eq!(mask.text("hunter2 hunter2-and-more"), "[A] [B]");
        assert_eq!(format!("{mask:?}"), "{\"A\", \"B\"}");
    }

    #[test]
    fn values_are_masked_however_their_json_was_written() {
        let mask = mask("line one\nline two");
        let escaped =
            r#"{"m":"line one\u000aline two","l":["a line\u0020two"],"n":7,"line two":1}"#;
        let value = mask.value(serde_json::from_str(escaped).unwrap());
        assert_eq!(value, json!({"m": "[TOKEN]", "l": ["a [TOKEN]"], "n": 7, "[TOKEN]": 1}));
        assert_eq!(self::mask("12345").value(json!([12345, 1])), json!(["[TOKEN]", 1]));
    }
}
