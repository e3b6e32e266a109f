//! Templates that make the key of a call's gate from its arguments: `host:{url.host}`.
//!
//! A place names an argument, and behind dots what is wanted of it: a field of an object, the
//! number of an entry of a list, or of a text that is a URL its `host`, `scheme` or `port`. What is
//! not there becomes `-`, and so every call has a key: a call must not fail for want of a gate. A
//! key that is too long is cut, and ends with a number that follows from the whole.

use std::fmt;

use serde_json::Value;

use super::names::{LONGEST_KEY, check_key};

/// A template for keys.
///
/// ```
/// use resurgam_core::gate::KeyTemplate;
/// use serde_json::json;
///
/// let template = KeyTemplate::parse("host:{url.host}").unwrap();
/// let key = template.key(&json!({"url": "https://api.example.com:8443/v1"}));
/// assert_eq!(key, "host:api.example.com");
/// assert_eq!(template.key(&json!({"url": 5})), "host:-");
/// assert_eq!(KeyTemplate::parse("stripe").unwrap().literal(), Some("stripe"));
/// let error = KeyTemplate::parse("host:{url").unwrap_err();
/// assert_eq!(error, "has a \"{\" without its \"}\"; write \"{{\" for the character itself");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyTemplate {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// The argument, and the way into it.
    Place(Vec<String>),
}

impl KeyTemplate {
    /// Reads a template. The error is the rest of a sentence that begins with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut parts, mut literal) = (Vec::new(), String::new());
        let mut rest = text;
        while let Some(next) = rest.find(['{', '}']) {
            literal.push_str(&rest[..next]);
            let (brace, tail) = rest[next..].split_at(1);
            if let Some(tail) = tail.strip_prefix(brace) {
                literal.push_str(brace);
                rest = tail;
                continue;
            }
            let place = tail.split_once('}').filter(|_| brace == "{");
            let (place, tail) = place.ok_or_else(|| unpaired(brace))?;
            parts.push(Part::Text(std::mem::take(&mut literal)));
            parts.push(Part::Place(read_place(place)?));
            rest = tail;
        }
        literal.push_str(rest);
        parts.push(Part::Text(literal));
        parts.retain(|part| *part != Part::Text(String::new()));
        let template = KeyTemplate { text: text.to_string(), parts };
        // Whatever the arguments are, one character of each is the least.
        check_key(&template.key(&Value::Null))?;
        Ok(template)
    }

    /// The key, where it is the same for all calls.
    pub fn literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The names of the arguments that it wants.
    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Place(way) => way.first().map(String::as_str),
            Part::Text(_) => None,
        })
    }

    /// The key of a call with these arguments, an object.
    pub fn key(&self, arguments: &Value) -> String {
        let mut key = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => key.push_str(text),
                Part::Place(way) => key.push_str(&found(arguments, way).unwrap_or("-".to_string())),
            }
        }
        bounded(key)
    }
}

impl fmt::Display for KeyTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn unpaired(brace: &str) -> String {
    let other = if brace == "{" { "}" } else { "{" };
    format!(
        "has a \"{brace}\" without its \"{other}\"; write \"{brace}{brace}\" for the character itself"
    )
}

fn read_place(place: &str) -> Result<Vec<String>, String> {
    let way: Vec<String> = place.split('.').map(|name| name.trim().to_string()).collect();
    if way.iter().any(|name| name.is_empty() || name.contains('{')) {
        return Err(format!(
            "has the place {{{place}}}, which names no argument; write {{argument}} or \
             {{argument.field}}"
        ));
    }
    Ok(way)
}

/// What is at a place, as text.
fn found(arguments: &Value, way: &[String]) -> Option<String> {
    let mut value = arguments;
    for (depth, name) in way.iter().enumerate() {
        value = match value {
            Value::Object(fields) => fields.get(name)?,
            Value::Array(entries) => entries.get(name.parse::<usize>().ok()?)?,
            Value::String(text) if depth + 1 == way.len() => return part_of_url(text, name),
            _ => return None,
        };
    }
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    let line: String = text.chars().filter(|c| !c.is_control()).collect();
    (!line.is_empty()).then_some(line)
}

/// A part of a URL, in small letters. Who is asked is the host; with which password, nobody needs
/// to read in a key.
fn part_of_url(url: &str, part: &str) -> Option<String> {
    let (scheme, rest) = url.trim().split_once("://")?;
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
    let host_end = match place.strip_prefix('[') {
        Some(address) => address.find(']')? + 2,
        None => place.find(':').unwrap_or(place.len()),
    };
    let (host, port) = place.split_at(host_end);
    let found = match part {
        "host" => host,
        "scheme" => scheme,
        "port" => port.strip_prefix(':')?,
        _ => return None,
    };
    let line: String = found.chars().filter(|c| !c.is_control()).collect();
    (!line.is_empty()).then(|| line.to_lowercase())
}

/// A key that is not too long: the beginning, and a number that follows from the whole.
fn bounded(key: String) -> String {
    if key.len() <= LONGEST_KEY {
        return key;
    }
    // FNV-1a: the same on every machine and in every version.
    let hash = key.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    });
    let mut end = LONGEST_KEY - 17;
    while !key.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}~{hash:016x}", &key[..end])
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;
    use serde_json::json;

    use super::*;

    fn key(template: &str, arguments: Value) -> String {
        KeyTemplate::parse(template).unwrap().key(&arguments)
    }

    #[test]
    fn places_are_filled_from_arguments() {
        let arguments = json!({
            "url": "HTTPS://user:secret@API.example.com:8443/v1?q#f",
            "v6": "http://[::1]:80/",
            "order": {"shop": "berlin", "lines": [{"sku": 7}]},
            "fast": true,
        });
        let cases = [
            ("stripe", "stripe"),
            ("host:{url.host}", "host:api.example.com"),
            ("{url.scheme}:{url.port}", "https:8443"),
            ("v6:{v6.host}", "v6:[::1]"),
            ("shop:{order.shop}", "shop:berlin"),
            ("sku:{order.lines.0.sku}", "sku:7"),
            ("{fast}", "true"),
            ("{{literal}}", "{literal}"),
            ("none:{nothing.here}", "none:-"),
            ("none:{order}", "none:-"),
            ("none:{url.host.more}", "none:-"),
            ("none:{order.shop.host}", "none:-"),
        ];
        for (template, expected) in cases {
            assert_eq!(key(template, arguments.clone()), expected, "{template}");
        }
    }

    #[test]
    fn a_template_that_cannot_work_is_refused() {
        for (template, word) in [
            ("", "is empty"),
            ("a}b", "without its \"{\""),
            ("{}", "names no argument"),
            ("{a..b}", "names no argument"),
            ("a\nb", "control character"),
        ] {
            let error = KeyTemplate::parse(template).unwrap_err();
            assert!(error.contains(word), "{template}: {error}");
        }
    }

    #[test]
    fn a_key_that_is_too_long_is_cut_and_stays_its_own() {
        let long = |end: &str| key("x:{a}", json!({"a": format!("{}{end}", "ä".repeat(300))}));
        assert!(long("1").len() <= LONGEST_KEY);
        assert_ne!(long("1"), long("2"));
        assert_eq!(long("1"), long("1"));
    }

    #[test]
    fn what_arguments_hold_never_makes_a_key_of_two_lines() {
        assert_eq!(key("x:{a}", json!({"a": "one\ntwo"})), "x:onetwo");
    }
}
