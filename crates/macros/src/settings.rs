//! What stands in the brackets: `#[activity(retry = PAYMENT, timeout = ..)]`.
//!
//! Each setting is a name and an expression. Only names, texts and the likely mistakes are looked
//! at here; the type of an expression is checked by the compiler, on the user's line.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Expr, ExprLit, Lit, LitStr, Path, Token};

use crate::complaints::Complaints;
use crate::kind::Kind;

/// What stands in the brackets.
#[derive(Default)]
pub(crate) struct Settings {
    /// The name on the wire.
    pub(crate) name: Option<LitStr>,
    /// Names it had before.
    pub(crate) aliases: Vec<LitStr>,
    /// The version of a workflow, with the setting's name.
    pub(crate) version: Option<(Ident, Expr)>,
    /// What the key of a call's gate is made of.
    pub(crate) gate: Option<LitStr>,
    /// Fields of `ActivityOptions` and their values.
    pub(crate) options: Vec<(Ident, Expr)>,
    /// Where Resurgam is.
    root: Option<Path>,
}

const COMMON: &[&str] = &["name", "alias", "crate"];
const VERSION: &[&str] = &["version"];
const RETRY: &[&str] = &["retry"];
const DURATIONS: &[&str] = &["timeout", "total_timeout", "queue_timeout", "heartbeat_timeout"];
const ROUTING: &[&str] = &["queue", "gate", "max_concurrent"];
/// What people look for on the activity and find on its policy.
const OF_THE_POLICY: &[&str] = &["max_attempts", "max_retries", "retries", "attempts", "backoff"];

/// How alike two names must be for one to be suggested in place of the other.
const ALIKE: f64 = 0.8;

impl Settings {
    /// Reads the settings. What cannot be used is complained about and left out.
    pub(crate) fn read(kind: Kind, tokens: TokenStream, complaints: &mut Complaints) -> Self {
        let mut settings = Settings::default();
        let parser = Punctuated::<Setting, Token![,]>::parse_terminated;
        match parser.parse2(tokens) {
            Ok(list) => list.into_iter().for_each(|one| settings.take(kind, one, complaints)),
            Err(error) => complaints.add(error),
        }
        settings.check_names(complaints);
        settings
    }

    /// The path that everything the macro writes is reached through, as if written at a place of
    /// the user's, so that errors about it land there.
    pub(crate) fn path(&self, at: Span) -> TokenStream {
        match &self.root {
            Some(root) => quote_spanned!(at=> #root::__private),
            None => quote_spanned!(at=> ::resurgam::__private),
        }
    }

    fn take(&mut self, kind: Kind, setting: Setting, complaints: &mut Complaints) {
        let Setting { name: key, value } = setting;
        let word = key.unraw().to_string();
        if !known(kind).any(|known| known == word) {
            return complaints.about(&key, unknown(kind, &word));
        }
        let Some(value) = value else {
            return complaints.about(&key, format!("`{word}` needs a value: `{word} = ..`"));
        };
        if word != "alias" && self.has(&word) {
            return complaints.about(&key, format!("`{word}` is set twice"));
        }
        match word.as_str() {
            "name" => self.name = text(&word, &value, complaints),
            "gate" => self.gate = text(&word, &value, complaints),
            "alias" => self.aliases.extend(texts(&word, &value, complaints)),
            "crate" => self.root = path(&value, complaints),
            _ => match hint(&word, &value) {
                Some(hint) => complaints.about(&value, hint),
                None if word == "version" => self.version = Some((key, value)),
                None => self.options.push((key, value)),
            },
        }
    }

    fn has(&self, word: &str) -> bool {
        match word {
            "name" => self.name.is_some(),
            "gate" => self.gate.is_some(),
            "crate" => self.root.is_some(),
            "version" => self.version.is_some(),
            _ => self.options.iter().any(|(key, _)| key == word),
        }
    }

    fn check_names(&self, complaints: &mut Complaints) {
        let mut seen: Vec<String> = Vec::new();
        for name in self.name.iter().chain(&self.aliases) {
            let text = name.value();
            if text.trim().is_empty() {
                complaints.about(name, "a name on the wire cannot be empty");
            } else if seen.contains(&text) {
                complaints.about(name, format!("`{text}` is already one of its names"));
            }
            seen.push(text);
        }
    }
}

/// One setting, with the value left out where the user left it out.
pub(crate) struct Setting {
    pub(crate) name: Ident,
    pub(crate) value: Option<Expr>,
}

impl Parse for Setting {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = input.call(Ident::parse_any)?;
        let value = match input.parse::<Option<Token![=]>>()? {
            Some(_) => Some(input.parse()?),
            None => None,
        };
        Ok(Setting { name, value })
    }
}

fn known(kind: Kind) -> impl Iterator<Item = &'static str> {
    let lists = match kind {
        Kind::Activity => [COMMON, RETRY, DURATIONS, ROUTING].as_slice(),
        Kind::Workflow => [COMMON, VERSION].as_slice(),
    };
    lists.iter().copied().flatten().copied()
}

/// What to say about a setting that there is not.
fn unknown(kind: Kind, word: &str) -> String {
    let macro_name = kind.name();
    let beginning = format!("#[{macro_name}] has no setting `{word}`");
    if kind == Kind::Activity && VERSION.contains(&word) {
        return format!(
            "{beginning}: attempts keep no code between them, so the newest is always the right \
             one; give it another name when its arguments change their meaning"
        );
    }
    if kind == Kind::Workflow && known(kind.other()).any(|known| known == word) {
        return match word {
            "retry" | "total_timeout" => format!(
                "{beginning}: that belongs to the start, as in `app.start(..).{word}(..)` or \
                 `ctx.child(..).{word}(..)`, or to an activity: #[activity({word} = ..)]"
            ),
            _ => format!("{beginning}: its activities have, with #[activity({word} = ..)]"),
        };
    }
    if kind == Kind::Activity && OF_THE_POLICY.contains(&word) {
        return format!(
            "{beginning}: that belongs to the policy, as in \
             `retry = RetryPolicy::DEFAULT.max_attempts(5)`"
        );
    }
    match nearest(kind, word) {
        Some(nearest) => format!("{beginning}; did you mean `{nearest}`?"),
        None => {
            let known: Vec<String> = known(kind).map(|known| format!("`{known}`")).collect();
            format!("{beginning}; there are {}", known.join(", "))
        }
    }
}

fn nearest(kind: Kind, word: &str) -> Option<&'static str> {
    known(kind)
        .map(|known| (known, strsim::jaro_winkler(known, word)))
        .filter(|(_, alike)| *alike > ALIKE)
        .max_by(|(_, one), (_, other)| one.total_cmp(other))
        .map(|(known, _)| known)
}

/// What to write in place of a bare number or text where the compiler would only say "expected
/// `Duration`", and of a number that can mean nothing.
fn hint(word: &str, value: &Expr) -> Option<String> {
    let Expr::Lit(ExprLit { lit, .. }) = value else { return None };
    match (word, lit) {
        ("version", Lit::Int(number)) if number.base10_digits() == "0" => {
            return Some("versions count from 1, which a workflow without one has".to_string());
        }
        ("version", Lit::Str(_) | Lit::Float(_) | Lit::Bool(_)) => {
            return Some("`version` is a whole number from 1: `version = 2`".to_string());
        }
        ("max_concurrent", Lit::Int(number)) if number.base10_digits() == "0" => {
            return Some("with `max_concurrent = 0` it would never run; allow 1".to_string());
        }
        _ => {}
    }
    let number = match lit {
        Lit::Int(number) => number.base10_digits(),
        Lit::Str(_) | Lit::Float(_) | Lit::Bool(_) => "10",
        _ => return None,
    };
    if DURATIONS.contains(&word) {
        return Some(format!("`{word}` is a `Duration`: write `Duration::from_secs({number})`"));
    }
    RETRY.contains(&word).then(|| {
        format!("`{word}` is a `RetryPolicy`: write `RetryPolicy::DEFAULT.max_attempts({number})`")
    })
}

pub(crate) fn text(word: &str, value: &Expr, complaints: &mut Complaints) -> Option<LitStr> {
    if let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = value {
        return Some(text.clone());
    }
    complaints.about(value, format!("`{word}` is a text in quotes: `{word} = \"charge\"`"));
    None
}

pub(crate) fn texts(word: &str, value: &Expr, complaints: &mut Complaints) -> Vec<LitStr> {
    match value {
        Expr::Array(list) => {
            list.elems.iter().filter_map(|value| text(word, value, complaints)).collect()
        }
        one => text(word, one, complaints).into_iter().collect(),
    }
}

pub(crate) fn path(value: &Expr, complaints: &mut Complaints) -> Option<Path> {
    if let Expr::Path(path) = value {
        return Some(path.path.clone());
    }
    complaints.about(value, "`crate` is a path: `crate = resurgam_sdk`");
    None
}
