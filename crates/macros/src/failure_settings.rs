//! What stands in `#[failure(..)]`: `#[failure(name = "card_declined", terminal, code = 402)]`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, Lit, LitStr, Path, Token};

use crate::complaints::Complaints;
use crate::settings::{Setting, path, text, texts};

/// What `#[failure(..)]` stands on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Struct,
    Enum,
    Variant,
}

/// What stands in `#[failure(..)]`.
#[derive(Default)]
pub(crate) struct Settings {
    /// What rules and records call it.
    pub(crate) name: Option<LitStr>,
    /// What it was called before.
    pub(crate) aliases: Vec<LitStr>,
    /// The types it descends from, nearest first.
    pub(crate) parents: Vec<LitStr>,
    /// The code that rules match on.
    pub(crate) code: Option<Expr>,
    /// `terminal` or `retryable`.
    pub(crate) outcome: Option<Ident>,
    /// When the other side wants to be asked again.
    pub(crate) retry_after: Option<Expr>,
    /// Where Resurgam is.
    pub(crate) root: Option<Path>,
}

const ALL: &[&str] =
    &["name", "alias", "parent", "code", "terminal", "retryable", "retry_after", "crate"];

impl Settings {
    /// Reads the settings of a struct, an enum or a variant.
    pub(crate) fn read(
        attributes: &[Attribute],
        place: Place,
        complaints: &mut Complaints,
    ) -> Self {
        let mut settings = Settings::default();
        for attribute in attributes.iter().filter(|one| one.path().is_ident("failure")) {
            let parser = Punctuated::<Setting, Token![,]>::parse_terminated;
            match attribute.parse_args_with(parser) {
                Ok(list) => list.into_iter().for_each(|one| settings.take(one, place, complaints)),
                Err(error) => complaints.add(error),
            }
        }
        settings
    }

    /// The path that everything the macro writes is reached through.
    pub(crate) fn path(&self, at: Span) -> TokenStream {
        match &self.root {
            Some(root) => quote_spanned!(at=> #root::__private),
            None => quote_spanned!(at=> ::resurgam::__private),
        }
    }

    fn take(&mut self, setting: Setting, place: Place, complaints: &mut Complaints) {
        let Setting { name: key, value } = setting;
        let word = key.unraw().to_string();
        if let Some(message) = misplaced(&word, place) {
            return complaints.about(&key, message);
        }
        if !ALL.contains(&word.as_str()) {
            return complaints.about(&key, unknown(&word));
        }
        if matches!(word.as_str(), "terminal" | "retryable") {
            return self.take_outcome(key, value, complaints);
        }
        let Some(value) = value else {
            return complaints.about(&key, format!("`{word}` needs a value: `{word} = ..`"));
        };
        if self.has(&word) {
            return complaints.about(&key, format!("`{word}` is set twice"));
        }
        match word.as_str() {
            "name" => self.name = name(&word, &value, complaints),
            "alias" => self.aliases.extend(texts(&word, &value, complaints)),
            "parent" => self.parents.extend(texts(&word, &value, complaints)),
            "code" => self.code = Some(value),
            "retry_after" => self.retry_after = delay(value, complaints),
            _ => self.root = path(&value, complaints),
        }
    }

    fn take_outcome(&mut self, key: Ident, value: Option<Expr>, complaints: &mut Complaints) {
        if let Some(value) = value {
            complaints.about(value, format!("`{key}` stands alone: `#[failure({key})]`"));
        } else if self.outcome.is_some() {
            let message = "`terminal` is never again and `retryable` is whatever the rules say: \
                           choose one";
            complaints.about(key, message);
        } else {
            self.outcome = Some(key);
        }
    }

    fn has(&self, word: &str) -> bool {
        match word {
            "name" => self.name.is_some(),
            "code" => self.code.is_some(),
            "retry_after" => self.retry_after.is_some(),
            "crate" => self.root.is_some(),
            _ => false,
        }
    }
}

/// What to say about a setting that belongs somewhere else.
fn misplaced(word: &str, place: Place) -> Option<String> {
    let message = match (word, place) {
        ("crate", Place::Variant) => "`crate` belongs on the enum",
        ("alias" | "retry_after", Place::Enum) => {
            return Some(format!("`{word}` belongs on a variant: each is a type of its own"));
        }
        _ => return None,
    };
    Some(message.to_string())
}

fn unknown(word: &str) -> String {
    let beginning = format!("#[failure] has no setting `{word}`");
    if matches!(word, "message" | "display" | "error") {
        return format!("{beginning}: the message is what `Display` says");
    }
    let nearest = ALL
        .iter()
        .map(|known| (known, strsim::jaro_winkler(known, word)))
        .filter(|(_, alike)| *alike > 0.8)
        .max_by(|(_, one), (_, other)| one.total_cmp(other));
    match nearest {
        Some((nearest, _)) => format!("{beginning}; did you mean `{nearest}`?"),
        None => {
            let known: Vec<String> = ALL.iter().map(|known| format!("`{known}`")).collect();
            format!("{beginning}; there are {}", known.join(", "))
        }
    }
}

fn name(word: &str, value: &Expr, complaints: &mut Complaints) -> Option<LitStr> {
    let name = text(word, value, complaints)?;
    if name.value().trim().is_empty() {
        complaints.about(&name, "a failure's name cannot be empty: rules match on it");
        return None;
    }
    Some(name)
}

fn delay(value: Expr, complaints: &mut Complaints) -> Option<Expr> {
    if let Expr::Lit(ExprLit { lit: Lit::Int(_) | Lit::Float(_) | Lit::Str(_), .. }) = &value {
        let message = "`retry_after` is a `Duration`, or a field with one: `retry_after = *wait`";
        complaints.about(&value, message);
        return None;
    }
    Some(value)
}
