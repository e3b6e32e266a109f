//! What is checked of `gate = "host:{url.host}"`: that places are written as places, and that each
//! names an argument. What a place comes to is for the SDK to say, call by call; its template
//! (`resurgam_core::gate::KeyTemplate`) reads the same texts.

use syn::LitStr;
use syn::ext::IdentExt;

use crate::complaints::Complaints;
use crate::signature::Argument;

/// How long a key may be, in bytes.
const LONGEST: usize = 200;

/// How alike two names must be for one to be suggested in place of the other.
const ALIKE: f64 = 0.8;

/// Complains about a template that cannot make keys of these arguments.
pub(crate) fn check(template: &LitStr, arguments: &[Argument], complaints: &mut Complaints) {
    let text = template.value();
    let places = match places(&text) {
        Ok(places) => places,
        Err(why) => return complaints.about(template, format!("the gate {text:?} {why}")),
    };
    let names: Vec<String> = arguments.iter().map(|one| one.name.unraw().to_string()).collect();
    for place in places {
        let name = place.split('.').next().unwrap_or_default().trim();
        if !names.iter().any(|known| known == name) {
            complaints.about(template, unknown(&text, name, &names));
        }
    }
}

fn unknown(text: &str, name: &str, names: &[String]) -> String {
    let beginning = format!("the gate {text:?} names the argument `{name}`, which there is not");
    let alike = |known: &&String| strsim::jaro_winkler(known, name);
    match names.iter().max_by(|one, other| alike(one).total_cmp(&alike(other))) {
        None => format!("{beginning}; the activity has no arguments"),
        Some(nearest) if alike(&nearest) > ALIKE => {
            format!("{beginning}; did you mean `{nearest}`?")
        }
        Some(_) => {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            format!("{beginning}; there are {}", names.join(", "))
        }
    }
}

/// The places of a template, or the rest of a sentence about it.
fn places(text: &str) -> Result<Vec<&str>, String> {
    if text.trim().is_empty() {
        return Err("is empty".to_string());
    }
    if text.chars().any(char::is_control) {
        return Err("has a control character".to_string());
    }
    if text.len() > LONGEST {
        return Err(format!("is {} bytes long; {LONGEST} is the longest", text.len()));
    }
    let mut places = Vec::new();
    let mut rest = text;
    while let Some(next) = rest.find(['{', '}']) {
        let (brace, tail) = rest[next..].split_at(1);
        if let Some(tail) = tail.strip_prefix(brace) {
            rest = tail;
            continue;
        }
        let Some((place, tail)) = tail.split_once('}').filter(|_| brace == "{") else {
            let other = if brace == "{" { "}" } else { "{" };
            return Err(format!(
                "has a \"{brace}\" without its \"{other}\"; write \"{brace}{brace}\" for the \
                 character itself"
            ));
        };
        if place.split('.').any(|name| name.trim().is_empty() || name.contains('{')) {
            return Err(format!(
                "has the place {{{place}}}, which names no argument; write {{argument}} or \
                 {{argument.field}}"
            ));
        }
        places.push(place);
        rest = tail;
    }
    Ok(places)
}
