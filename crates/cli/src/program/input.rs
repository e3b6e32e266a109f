//! What a program or a graph is started with.

use std::path::Path;

use resurgam_core::{Code, Payload};
use resurgam_graph::{KEY_VARIABLE, SecretsKey, Start};
use resurgam_ir::Value as IrValue;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{Content, Source, read_text, refused_start, text_of, warnings};
use crate::trouble::{Mistake, Trouble};

/// The options that start something.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct InputArgs {
    /// The inputs: an object with one key for each input of the first function, or of the root;
    /// @FILE reads it from a file, - from standard input
    #[arg(long, alias = "inputs", value_name = "JSON")]
    pub(crate) input: Option<String>,
    /// Values of the store of a graph: an object of texts; @FILE and - as for --input
    #[arg(long, value_name = "JSON")]
    pub(crate) store: Option<String>,
}

/// The texts of both, read from wherever they are.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    pub(crate) input: Option<Text>,
    pub(crate) store: Option<Text>,
}

/// JSON that somebody gave, and where it was, for messages.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) place: String,
    pub(crate) json: String,
}

impl Text {
    /// Reads what an option says: JSON, the name of a file after an `@`, or `-`. No JSON begins so.
    pub(crate) fn given(option: &str, value: &str) -> Result<Self, Trouble> {
        let read = |from: &str, json: Result<String, Trouble>| {
            Ok(Text { place: format!("{option} {from}"), json: json? })
        };
        match value.strip_prefix('@') {
            Some("") => Err(Trouble::refused(format!("{option} @: names no file; write @FILE"))),
            Some(file) => read(value, read_text(Path::new(file))),
            None if value == "-" => read("-", text_of(std::io::stdin().lock(), "standard input")),
            None => Ok(Text { place: option.to_string(), json: value.to_string() }),
        }
    }
}

/// What an instance is started with.
#[derive(Debug)]
pub(crate) struct Argument {
    pub(crate) payload: Payload,
    pub(crate) warnings: Vec<String>,
}

impl InputArgs {
    /// Reads what was given.
    pub(crate) fn texts(&self) -> Result<Texts, Trouble> {
        if [&self.input, &self.store].iter().all(|value| value.as_deref() == Some("-")) {
            let message = "--input and --store cannot both be read from standard input";
            return Err(Mistake::new(message).hint("write one of them as @FILE").into());
        }
        let given = |option, value: &Option<String>| {
            value.as_deref().map(|value| Text::given(option, value)).transpose()
        };
        Ok(Texts { input: given("--input", &self.input)?, store: given("--store", &self.store)? })
    }

    /// Makes the argument of an instance.
    pub(crate) fn argument(&self, source: &Source) -> Result<Argument, Trouble> {
        self.texts()?.argument(source)
    }
}

impl Texts {
    /// Makes the argument of an instance.
    pub(crate) fn argument(&self, source: &Source) -> Result<Argument, Trouble> {
        match &source.content {
            Content::Program(program) => {
                if self.store.is_some() {
                    return Err(Trouble::refused("--store is for graphs; a program has no store"));
                }
                let place = place("--input", self.input.as_ref());
                let inputs = object::<IrValue>("--input", self.input.as_ref())?;
                let input = program.input(inputs).map_err(|wrong| {
                    Trouble::Refused(
                        wrong
                            .into_iter()
                            .map(|what| Mistake::new(format!("{place}: {what}")).code(Code::C5))
                            .collect(),
                    )
                })?;
                Ok(Argument { payload: encode(&input)?, warnings: Vec::new() })
            }
            Content::Graph(template) => {
                let start = Start {
                    inputs: object::<Map<String, Value>>("--input", self.input.as_ref())?,
                    store: object::<Map<String, Value>>("--store", self.store.as_ref())?,
                    key: key()?,
                    ..Start::default()
                };
                let started =
                    template.start(&start).map_err(|problems| refused_start(&problems))?;
                let warnings = warnings(&started.warnings);
                Ok(Argument { payload: encode(&started.run)?, warnings })
            }
        }
    }
}

/// Reads an object from an option; one that was not given is empty.
fn object<T: DeserializeOwned>(option: &str, text: Option<&Text>) -> Result<T, Trouble> {
    let place = place(option, text);
    let text = text.map_or("{}", |text| &text.json);
    let is_object = |value: Value| value.is_object();
    match serde_json::from_str(text).map(is_object) {
        Err(error) => Err(Trouble::refused(format!("{place}: this is not JSON: {error}"))),
        Ok(false) => {
            Err(Trouble::refused(format!("{place}: write an object, such as {{\"name\": 1}}")))
        }
        Ok(true) => serde_json::from_str(text)
            .map_err(|error| Trouble::refused(format!("{place}: {error}"))),
    }
}

/// Where a text is, or would be.
fn place(option: &str, text: Option<&Text>) -> String {
    text.map_or(option, |text| &text.place).to_string()
}

fn encode(value: &impl serde::Serialize) -> Result<Payload, Trouble> {
    Payload::encode(value).map_err(|error| Trouble::failed(format!("write the argument: {error}")))
}

/// The key for secrets, from the environment.
pub(crate) fn key() -> Result<Option<SecretsKey>, Trouble> {
    match std::env::var(KEY_VARIABLE) {
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(Trouble::refused(format!("{KEY_VARIABLE}: {error}"))),
        Ok(text) if text.is_empty() => Ok(None),
        Ok(text) => {
            let key = SecretsKey::from_text(&zeroize::Zeroizing::new(text));
            key.map(Some).map_err(|error| Trouble::refused(error.to_string()))
        }
    }
}
