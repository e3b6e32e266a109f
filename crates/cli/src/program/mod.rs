//! A file that can be run: a program as text, or a graph as JSON.

mod difference;
mod input;
mod interpret;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use resurgam_core::Code;
use resurgam_core::config::{Problem, Problems};
use resurgam_graph::Template;
use resurgam_ir::{Dialect, Program};

pub(crate) use difference::difference;
pub(crate) use input::{Argument, InputArgs, Text, Texts, key};
pub(crate) use interpret::{Kind, any_workflow};

use crate::actions::Folder;
use crate::policy::complaint::Lines;
use crate::policy::locate;
use crate::trouble::{Mistake, Trouble};

/// The file, as all commands take it that read one.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct FileArgs {
    /// A program (.rap) or a graph (JSON with nodes)
    pub(crate) file: PathBuf,
    /// The dialect of a program: rappel or waymark; guessed unless given
    #[arg(long, value_name = "DIALECT", value_parser = dialect)]
    pub(crate) dialect: Option<Dialect>,
}

fn dialect(name: &str) -> Result<Dialect, String> {
    Dialect::named(name).ok_or_else(|| "write rappel or waymark".to_string())
}

/// The largest file that is read: far more than fits into an instance, and less than a device or a
/// mistaken name could bring.
const LARGEST: u64 = 64 << 20;

/// A file that was read and makes sense.
#[derive(Debug)]
pub(crate) struct Source {
    /// Its name, as it was given.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    text: String,
    pub(crate) content: Content,
}

#[derive(Debug)]
pub(crate) enum Content {
    Program(Box<Program>),
    Graph(Box<Template>),
}

impl FileArgs {
    /// Reads the file. The error has everything that is wrong with it.
    pub(crate) fn read(&self) -> Result<Source, Trouble> {
        let name = self.file.display().to_string();
        let text = read_text(&self.file)?;
        let content = match is_graph(&self.file, &text) {
            true => Content::Graph(Box::new(graph(&name, &text)?)),
            false => Content::Program(Box::new(program(&name, &text, self.dialect)?)),
        };
        Ok(Source { name, path: self.file.clone(), text, content })
    }
}

/// The text of a file.
pub(crate) fn read_text(file: &Path) -> Result<String, Trouble> {
    let name = file.display().to_string();
    let refused = |message: String| Trouble::Refused(vec![Mistake::new(message).in_file(&name)]);
    let opened = File::open(file).map_err(|error| refused(format!("read the file: {error}")))?;
    text_of(opened, &name)
}

/// The text of whatever can be read.
pub(crate) fn text_of(from: impl Read, name: &str) -> Result<String, Trouble> {
    let refused = |mistake: Mistake| Trouble::Refused(vec![mistake.in_file(name)]);
    let mut bytes = Vec::new();
    from.take(LARGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| refused(Mistake::new(format!("read the file: {error}"))))?;
    if bytes.len() as u64 > LARGEST {
        let message = format!("the file is larger than {} MiB", LARGEST >> 20);
        return Err(refused(Mistake::new(message)));
    }
    String::from_utf8(bytes).map_err(|error| {
        let start = error.utf8_error().valid_up_to();
        // Shown as people see it, up to the place and beyond.
        let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
        let mistake = Mistake::new("this is not UTF-8").in_file(name);
        Trouble::Refused(vec![mistake.at(&text, &(start..start + 1))])
    })
}

/// A `.rap` file is a program; JSON with nodes is a graph, and so is what wants to be JSON.
fn is_graph(file: &Path, text: &str) -> bool {
    let extension = file.extension().and_then(|extension| extension.to_str());
    match extension {
        Some("rap") => false,
        Some("json") => true,
        _ => serde_json::from_str(text).is_ok_and(|value| Template::is_meant(&value)),
    }
}

fn program(name: &str, text: &str, dialect: Option<Dialect>) -> Result<Program, Trouble> {
    Program::read(name, text, dialect).map_err(|errors| program_errors(&errors))
}

/// The errors of a program.
pub(crate) fn program_errors(errors: &resurgam_ir::Errors) -> Trouble {
    let mistake = |error: resurgam_ir::Error| Mistake {
        code: error.code,
        text: Some(format!("{error}\n")),
        file: Some(error.file),
        line: Some(error.line),
        column: Some(error.column),
        source: Some(error.source),
        message: error.message,
        hint: error.hint,
        path: None,
    };
    Trouble::Refused(errors.iter().map(mistake).collect())
}

/// Reads a graph.
pub(crate) fn graph(name: &str, text: &str) -> Result<Template, Trouble> {
    // As a value: only so is a text refused that is nested deeper than anybody could walk.
    let value: serde_json::Value =
        serde_json::from_str(text).map_err(|error| not_json(name, text, &error))?;
    Template::from_value(&value).map_err(|problems| refused(name, text, problems.iter()))
}

fn not_json(name: &str, text: &str, error: &serde_json::Error) -> Trouble {
    let lines = Lines::of(text);
    // It counts bytes.
    let place = lines.place(error.line(), 1) + error.column().saturating_sub(1);
    let mut mistake =
        Mistake::new(format!("this is not JSON: {error}")).code(Code::G1).in_file(name);
    mistake.path = Some(String::new());
    Trouble::Refused(vec![mistake.within(&lines, &(place..place + 1))])
}

/// Problems of a graph, with their places in the file.
fn refused<'a>(name: &str, text: &str, problems: impl Iterator<Item = &'a Problem>) -> Trouble {
    let (places, lines) = (locate::json(text).root, Lines::of(text));
    let mistake = |problem: &Problem| {
        let mut mistake = Mistake::new(&problem.message).code(problem.code).in_file(name);
        mistake.path = Some(problem.path.clone());
        mistake.within(&lines, places.find(&problem.path))
    };
    Trouble::Refused(problems.map(mistake).collect())
}

/// Problems of what a graph is started with, which is not in the file.
fn refused_start(problems: &Problems) -> Trouble {
    let give_store = "give them with --store and a JSON object".to_string();
    let mistake = |problem: &Problem| Mistake {
        code: problem.code,
        path: Some(problem.path.clone()),
        hint: (problem.path == "store").then(|| give_store.clone()),
        ..Mistake::new(match problem.path.as_str() {
            "" => problem.message.clone(),
            path => format!("{path}: {}", problem.message),
        })
    };
    Trouble::Refused(problems.iter().map(mistake).collect())
}

impl Source {
    /// The name of the workflow: the file's, without its ending.
    pub(crate) fn workflow(&self) -> String {
        let stem = self.path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        stem.filter(|stem| !stem.is_empty()).unwrap_or_else(|| "program".to_string())
    }

    /// What is odd about the file, for people.
    pub(crate) fn warnings(&self) -> Vec<String> {
        match &self.content {
            Content::Program(_) => Vec::new(),
            Content::Graph(template) => warnings(template.warnings()),
        }
    }

    /// The actions that it calls that are not there, each with its place.
    pub(crate) fn missing_actions(&self, folder: Option<&Folder>) -> Result<(), Trouble> {
        let lacks = |name: &str| match folder {
            Some(folder) => folder.lacks(name),
            None => Some("there is no folder of actions".to_string()),
        };
        let mistakes: Vec<Mistake> = match &self.content {
            Content::Program(program) => {
                let lines = Lines::of(&self.text);
                let actions = program.actions().into_iter();
                let missing = actions.filter_map(|action| {
                    let message =
                        format!("action @{} cannot run: {}", action.name, lacks(&action.name)?);
                    let start = lines.place(action.line, action.column);
                    let mistake =
                        Mistake::new(message).code(Code::C2).in_file(&self.name).hint(HOW);
                    Some(mistake.within(&lines, &(start..start + action.name.len())))
                });
                missing.collect()
            }
            Content::Graph(template) => {
                let (places, lines) = (locate::json(&self.text).root, Lines::of(&self.text));
                let calls = template.graph().calls();
                let missing = calls.into_iter().filter_map(|(path, name)| {
                    let message = format!("node {name} cannot run: {}", lacks(&name)?);
                    let mut mistake = Mistake::new(message).code(Code::C2).in_file(&self.name);
                    mistake.path = Some(path.clone());
                    Some(mistake.hint(HOW).within(&lines, places.find(&path)))
                });
                missing.collect()
            }
        };
        if mistakes.is_empty() { Ok(()) } else { Err(Trouble::Refused(mistakes)) }
    }
}

/// What to do about a missing action.
const HOW: &str = "--actions names the folder, --wait-for-actions waits for it to come";

/// Warnings as lines.
pub(crate) fn warnings(problems: &[Problem]) -> Vec<String> {
    let line = |problem: &Problem| match problem.path.as_str() {
        "" => format!("{} {}", problem.code, problem.message),
        path => format!("{} {path}: {}", problem.code, problem.message),
    };
    problems.iter().map(line).collect()
}
