//! `resurgam fmt`, `check`, `graph check` and `secrets`: what needs no database.

use std::path::PathBuf;

use clap::Subcommand;
use resurgam_graph::{KEY_VARIABLE, SecretsKey};
use resurgam_ir::Dialect;
use serde_json::json;

use super::{node, warn};
use crate::exit::Exit;
use crate::form::{Form, line};
use crate::output::Output;
use crate::program::{self, FileArgs};
use crate::trouble::{Mistake, Trouble};

/// Write programs in one layout, in place
#[derive(Debug, clap::Args)]
pub(crate) struct FmtArgs {
    /// The programs; - reads standard input and prints
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Change nothing; exit code 1 when a file is not in the layout
    #[arg(long)]
    check: bool,
    /// The dialect: rappel or waymark; guessed unless given
    #[arg(long, value_name = "DIALECT", value_parser = |name: &str| {
        Dialect::named(name).ok_or("write rappel or waymark")
    })]
    dialect: Option<Dialect>,
    /// Print one JSON value
    #[arg(long)]
    pub(super) json: bool,
}

impl FmtArgs {
    pub(super) fn run(self) -> Result<Output, Trouble> {
        let mut changed = Vec::new();
        let mut printed = String::new();
        let mut mistakes = Vec::new();
        for file in &self.files {
            match self.format(file, &mut printed) {
                Ok(true) => changed.push(file.display().to_string()),
                Ok(false) => {}
                Err(Trouble::Refused(more)) => mistakes.extend(more),
                Err(trouble) => return Err(trouble),
            }
        }
        if !mistakes.is_empty() {
            return Err(Trouble::Refused(mistakes));
        }
        let exit = if self.check && !changed.is_empty() { Exit::Unexpected } else { Exit::Done };
        if self.json {
            return Ok(Output::json(json!({ "changed": changed }).to_string(), exit));
        }
        let listed: String = changed.iter().map(|file| format!("{file}\n")).collect();
        let stdout = if printed.is_empty() { listed } else { printed };
        Ok(Output { stdout, stderr: String::new(), exit })
    }

    /// Formats one file. True when that changes it.
    fn format(&self, file: &PathBuf, printed: &mut String) -> Result<bool, Trouble> {
        let is_stdin = file.as_os_str() == "-";
        let name = if is_stdin { "standard input".to_string() } else { file.display().to_string() };
        let text = match is_stdin {
            true => program::text_of(std::io::stdin().lock(), &name)?,
            false => program::read_text(file)?,
        };
        let formatted = resurgam_ir::format(&name, &text, self.dialect)
            .map_err(|errors| program::program_errors(&errors))?;
        let changed = formatted != text;
        if is_stdin && !self.check {
            printed.push_str(&formatted);
        } else if changed && !self.check {
            std::fs::write(file, formatted).map_err(|error| {
                Trouble::Refused(vec![
                    Mistake::new(format!("write the file: {error}")).in_file(&name),
                ])
            })?;
        }
        Ok(changed)
    }
}

/// Check a program or a graph without running it
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Check as well that the actions are in this folder
    #[arg(long, value_name = "DIR")]
    actions: Option<PathBuf>,
    /// Print one JSON value
    #[arg(long)]
    pub(super) json: bool,
}

impl CheckArgs {
    pub(super) fn run(self) -> Result<Output, Trouble> {
        let source = self.file.read()?;
        if let Some(actions) = &self.actions {
            source.missing_actions(Some(&*node::folder(actions)?))?;
        }
        Ok(fine(&source.name, &source.warnings(), self.json))
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum GraphCommand {
    /// Check a graph without running it
    #[command(after_help = crate::help::GRAPH)]
    Check(GraphCheckArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct GraphCheckArgs {
    /// The graph: JSON
    file: PathBuf,
    /// Print one JSON value
    #[arg(long)]
    pub(super) json: bool,
}

impl GraphCommand {
    pub(super) fn run(self) -> Result<Output, Trouble> {
        let GraphCommand::Check(args) = self;
        let name = args.file.display().to_string();
        let template = program::graph(&name, &program::read_text(&args.file)?)?;
        Ok(fine(&name, &program::warnings(template.warnings()), args.json))
    }
}

/// There is nothing wrong with a file; something may be odd.
fn fine(name: &str, warnings: &[String], json: bool) -> Output {
    if json {
        let form = Form::default().with("file", name).with("ok", true).with("warnings", warnings);
        return Output::json(line(&form), Exit::Done);
    }
    warn(warnings);
    Output::done(format!("{name}: ok\n"))
}

#[derive(Debug, Subcommand)]
pub(crate) enum SecretsCommand {
    /// Make a key for RESURGAM_SECRETS_KEY
    #[command(after_help = crate::help::SECRETS)]
    NewKey {
        /// Print one JSON value
        #[arg(long)]
        json: bool,
    },
    /// Print the fingerprint of the key in RESURGAM_SECRETS_KEY
    ///
    /// A call that waits for a key names it by its fingerprint, which gives nothing of the key
    /// away.
    #[command(after_help = crate::help::FINGERPRINT)]
    Fingerprint {
        /// Print one JSON value
        #[arg(long)]
        json: bool,
    },
}

impl SecretsCommand {
    pub(super) fn run(self) -> Result<Output, Trouble> {
        match self {
            SecretsCommand::NewKey { json } => {
                let key = SecretsKey::generate_text();
                Ok(word("key", &key, json))
            }
            SecretsCommand::Fingerprint { json } => match program::key()? {
                Some(key) => Ok(word("fingerprint", &key.fingerprint(), json)),
                None => Err(Trouble::refused(format!("{KEY_VARIABLE} is not set"))),
            },
        }
    }

    /// Whether standard output is for a program.
    pub(super) fn json(&self) -> bool {
        let (SecretsCommand::NewKey { json } | SecretsCommand::Fingerprint { json }) = self;
        *json
    }
}

fn word(name: &'static str, value: &str, json: bool) -> Output {
    match json {
        true => Output::json(json!({ name: value }).to_string(), Exit::Done),
        false => Output::done(format!("{value}\n")),
    }
}
