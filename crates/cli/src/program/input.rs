//! What a program or a graph is started with.

use resurgam_core::{Code, Payload};
use resurgam_graph::{KEY_VARIABLE, SecretsKey, Start};
use resurgam_ir::Value as IrValue;
use serde_json::{Map, Value};

use super::{Content, Source, refused_start, warnings};
use crate::trouble::{Mistake, Trouble};

/// The options that start something.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct InputArgs {
    /// The inputs: an object with one key for each input of the first function, or of the root
    #[arg(long, alias = "inputs", value_name = "JSON")]
    pub(crate) input: Option<String>,
    /// Values of the store of a graph: an object of texts
    #[arg(long, value_name = "JSON")]
    pub(crate) store: Option<String>,
}

/// What an instance is started with.
#[derive(Debug)]
pub(crate) struct Argument {
    pub(crate) payload: Payload,
    pub(crate) warnings: Vec<String>,
}

impl InputArgs {
    /// Makes the argument of an instance.
    pub(crate) fn argument(&self, source: &Source) -> Result<Argument, Trouble> {
        match &source.content {
            Content::Program(program) => {
                if self.store.is_some() {
                    return Err(Trouble::refused("--store is for graphs; a program has no store"));
                }
                let inputs = object::<IrValue>("--input", self.input.as_deref())?;
                let input = program.input(inputs).map_err(|wrong| {
                    Trouble::Refused(
                        wrong
                            .into_iter()
                            .map(|what| Mistake::new(format!("--input: {what}")).code(Code::C5))
                            .collect(),
                    )
                })?;
                Ok(Argument { payload: encode(&input)?, warnings: Vec::new() })
            }
            Content::Graph(template) => {
                let start = Start {
                    inputs: object::<Map<String, Value>>("--input", self.input.as_deref())?,
                    store: object::<Map<String, Value>>("--store", self.store.as_deref())?,
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
fn object<T: serde::de::DeserializeOwned>(option: &str, text: Option<&str>) -> Result<T, Trouble> {
    let text = text.unwrap_or("{}");
    let is_object = |value: Value| value.is_object();
    match serde_json::from_str(text).map(is_object) {
        Err(error) => Err(Trouble::refused(format!("{option}: this is not JSON: {error}"))),
        Ok(false) => {
            Err(Trouble::refused(format!("{option}: write an object, such as {{\"name\": 1}}")))
        }
        Ok(true) => serde_json::from_str(text)
            .map_err(|error| Trouble::refused(format!("{option}: {error}"))),
    }
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
