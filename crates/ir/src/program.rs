//! A program that was read and checked.

use std::collections::BTreeMap;
use std::sync::Arc;

use resurgam_core::config::nearest;
use resurgam_core::retry::dialect::{Bracket, Fallback};
use serde::{Deserialize, Serialize};

use crate::Dialect;
use crate::ast::{CallRef, Function, Tree};
use crate::check::{SLEEP, check};
use crate::errors::{Errors, Lines};
use crate::format::print;
use crate::interpret::compile;
use crate::parser::{Parsed, Reading, parse};
use crate::value::Value;

/// A program that was read and checked.
///
/// ```
/// use resurgam_ir::Program;
///
/// let text = "fn main(input: [name], output: [greeting]):\n    return @greet(name=name)\n";
/// let program = Program::read("hello.rap", text, None)?;
/// assert_eq!(program.inputs(), ["name"]);
/// assert_eq!(program.actions()[0].name, "greet");
/// # Ok::<(), resurgam_ir::Errors>(())
/// ```
#[derive(Clone, Debug)]
pub struct Program {
    text: Arc<str>,
    reading: Reading,
    tree: Tree,
}

/// An action that a program calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionUse {
    /// Its name, with its dots.
    pub name: String,
    /// The line of its first call, from 1.
    pub line: usize,
    /// The column of its first call, from 1.
    pub column: usize,
}

/// The argument of the workflow that runs a program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProgramInput {
    /// The text of the program.
    pub program: String,
    /// The dialect it is read in.
    pub dialect: Dialect,
    /// True when nobody said so: see [`Dialect::guess`].
    #[serde(default)]
    pub guessed: bool,
    /// The inputs of its first function, by name.
    #[serde(default)]
    pub inputs: Value,
}

impl Program {
    /// Reads and checks a program. Without a dialect it is guessed. The error has everything that
    /// is wrong with the text.
    pub fn read(file: &str, text: &str, dialect: Option<Dialect>) -> Result<Program, Errors> {
        let text: Arc<str> = normalised(text).into();
        let dialect_known = dialect.unwrap_or_else(|| Dialect::guess(&text));
        let reading = Reading { dialect: dialect_known, certain: dialect.is_some() };
        Program::of(file, text, reading)
    }

    /// Reads the program of an instance.
    pub(crate) fn stored(input: &ProgramInput) -> Result<Program, Errors> {
        let reading = Reading { dialect: input.dialect, certain: !input.guessed };
        Program::of("the stored program", input.program.as_str().into(), reading)
    }

    fn of(file: &str, text: Arc<str>, reading: Reading) -> Result<Program, Errors> {
        let Parsed { tree, mut problems, .. } = parse(&text, reading);
        problems.extend(check(&tree, reading.dialect, problems.is_empty()));
        Errors::check(file, &text, problems)?;
        Ok(Program { text, reading, tree })
    }

    /// The text, as it is stored with an instance: lines end with a line feed and not with blanks.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The dialect it was read in.
    pub fn dialect(&self) -> Dialect {
        self.reading.dialect
    }

    /// The name of the function it begins with: `main`, else the first one. None when it has no
    /// function, which Waymark allows.
    pub fn entry(&self) -> Option<&str> {
        self.entry_function().map(|function| function.name.text.as_str())
    }

    /// The inputs that it takes.
    pub fn inputs(&self) -> Vec<&str> {
        let inputs = self.entry_function().into_iter().flat_map(|function| &function.inputs);
        inputs.map(|input| input.text.as_str()).collect()
    }

    /// What it says that it returns. Nothing depends on it.
    pub fn outputs(&self) -> Vec<&str> {
        let outputs = self.entry_function().into_iter().flat_map(|function| &function.outputs);
        outputs.map(|output| output.text.as_str()).collect()
    }

    /// The names of all functions.
    pub fn functions(&self) -> Vec<&str> {
        self.tree.functions.iter().map(|function| function.name.text.as_str()).collect()
    }

    /// The actions that it calls or falls back to, sorted by name. The built-in `@sleep` is none.
    pub fn actions(&self) -> Vec<ActionUse> {
        let mut first: BTreeMap<&str, u32> = BTreeMap::new();
        let mut used = |name, start| {
            let place = first.entry(name).or_insert(start);
            *place = start.min(*place);
        };
        for function in &self.tree.functions {
            function.visit_calls(&mut |call| {
                let CallRef::Action(action) = call else { return };
                if action.name.text != SLEEP {
                    used(action.name.text.as_str(), action.name.span.start);
                }
                for policy in &action.policies {
                    if let Bracket::Fallback(Fallback::ByActivity(name)) = &policy.bracket {
                        let text = &self.text[policy.span.start as usize..];
                        let behind = text.find('@').map_or(0, |at| at + 1);
                        used(name.as_str(), policy.span.start + behind as u32);
                    }
                }
            });
        }
        let lines = Lines::of(&self.text);
        let action = |(name, at): (&str, u32)| {
            let place = lines.place(&self.text, at as usize);
            ActionUse { name: name.to_string(), line: place.line, column: place.column }
        };
        first.into_iter().map(action).collect()
    }

    /// Checks the inputs of a start: an object with every input of the first function and nothing
    /// else. The error is a list of sentences.
    pub fn check_inputs(&self, inputs: &Value) -> Result<(), Vec<String>> {
        let Value::Dict(dict) = inputs else {
            return Err(vec![format!("the inputs are not an object; {}", self.wanted())]);
        };
        let known = self.inputs();
        let mut wrong = Vec::new();
        for name in &known {
            if dict.get(name).is_none() {
                wrong.push(format!("missing input \"{name}\"; {}", self.wanted()));
            }
        }
        for (name, _) in dict.entries().iter().filter(|(name, _)| !known.contains(&name.as_str())) {
            let advice = match nearest(name, known.iter().copied()) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => self.wanted(),
            };
            wrong.push(format!("unknown input \"{name}\"; {advice}"));
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }

    fn wanted(&self) -> String {
        let entry = self.entry().unwrap_or("the program");
        match self.inputs().as_slice() {
            [] => format!("{entry} takes none"),
            inputs => format!("{entry} takes {}", inputs.join(", ")),
        }
    }

    /// The argument to start the workflow with, from inputs that were checked.
    pub fn input(&self, inputs: Value) -> Result<ProgramInput, Vec<String>> {
        self.check_inputs(&inputs)?;
        Ok(ProgramInput {
            program: self.text.to_string(),
            dialect: self.reading.dialect,
            guessed: !self.reading.certain,
            inputs,
        })
    }

    pub(crate) fn compile(&self) -> Result<crate::interpret::Code, String> {
        compile(&self.text, &self.tree, self.reading.dialect)
    }

    pub(crate) fn entry_place(&self) -> Option<usize> {
        let main = self.tree.functions.iter().position(|function| function.name.text == "main");
        main.or((!self.tree.functions.is_empty()).then_some(0))
    }

    fn entry_function(&self) -> Option<&Function> {
        self.entry_place().map(|place| &self.tree.functions[place])
    }

    /// The inputs in the order of the first function.
    pub(crate) fn arrange(&self, inputs: &Value) -> Result<Vec<Option<Value>>, String> {
        self.check_inputs(inputs).map_err(|wrong| wrong.join("; "))?;
        let Value::Dict(dict) = inputs else { return Ok(Vec::new()) };
        Ok(self.inputs().into_iter().map(|name| dict.get(name).cloned()).collect())
    }
}

/// Two programs are the same when their trees are, whatever they look like.
impl PartialEq for Program {
    fn eq(&self, other: &Program) -> bool {
        self.tree == other.tree && self.reading.dialect == other.reading.dialect
    }
}

/// Prints a program in one layout, comments included. The error is about what cannot be read; what
/// the checks would find does not matter here.
///
/// ```
/// let text = "fn main(input:[],output:[x]):\n  x=@f( )[retry:3]  # twice is not enough\n";
/// assert_eq!(
///     resurgam_ir::format("a.rap", text, None)?,
///     "fn main(input: [], output: [x]):\n    x = @f() [retry: 3]  # twice is not enough\n"
/// );
/// # Ok::<(), resurgam_ir::Errors>(())
/// ```
pub fn format(file: &str, text: &str, dialect: Option<Dialect>) -> Result<String, Errors> {
    let text: Arc<str> = normalised(text).into();
    let reading = Reading {
        dialect: dialect.unwrap_or_else(|| Dialect::guess(&text)),
        certain: dialect.is_some(),
    };
    let Parsed { tree, comments, problems } = parse(&text, reading);
    Errors::check(file, &text, problems)?;
    Ok(print(&text, &tree, &comments))
}

/// The text without what nobody sees: a byte order mark, carriage returns, blanks at the ends of
/// lines. Places in it stay what they are.
fn normalised(text: &str) -> String {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut out = String::with_capacity(text.len() + 1);
    for line in text.lines() {
        out.push_str(line.trim_end_matches([' ', '\t', '\r']));
        out.push('\n');
    }
    out
}
