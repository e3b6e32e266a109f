//! What can be found wrong with a program before anything runs.
//!
//! One file for each subject. A check never reports what might be right: a variable that is
//! assigned on one way only is left to the run, where its absence is a failure that can be caught.

mod calls;
mod names;
mod policies;
mod recursion;
mod statements;
mod variables;

use std::collections::HashMap;

use resurgam_core::config::nearest;

use crate::Dialect;
use crate::ast::{Function, Tree};
use crate::errors::{Code, Problem, Span};

/// The name of the built-in action that waits.
pub(crate) const SLEEP: &str = "sleep";

/// The argument that it has.
pub(crate) const DURATION: &str = "duration";

/// The functions that every program has, with the number of arguments they take.
pub(crate) const BUILTINS: [(&str, usize, usize); 4] =
    [("range", 1, 3), ("len", 1, 1), ("enumerate", 1, 2), ("isexception", 1, 1)];

/// A program that is checked.
struct Check<'a> {
    functions: HashMap<&'a str, &'a Function>,
    dialect: Dialect,
    problems: Vec<Problem>,
}

pub(crate) fn check(tree: &Tree, dialect: Dialect, syntax_is_fine: bool) -> Vec<Problem> {
    let mut check = Check { functions: HashMap::new(), dialect, problems: Vec::new() };
    check.names(tree);
    if tree.functions.is_empty() && dialect == Dialect::Rappel && syntax_is_fine {
        let problem = Problem::new(Code::I6, Span::default(), "the program has no function");
        check.problems.push(problem.hint("begin with: fn main(input: [], output: [result]):"));
    }
    for function in &tree.functions {
        check.statements(function);
        check.calls(function);
        check.policies(function);
        check.variables(function);
    }
    check.recursion(tree);
    check.problems
}

impl Check<'_> {
    fn report(&mut self, problem: Problem) {
        self.problems.push(problem);
    }
}

/// How many problems of a program get a hint of what was meant, and among how many names it is
/// looked for: a file that is not a program at all is refused quickly too.
const HINTS: usize = 100;
const NAMES: usize = 1_000;

/// The known name that was probably meant, where that many problems were found before. Names of one
/// letter are like each other by chance.
fn near<'a>(
    word: &str,
    known: impl Iterator<Item = &'a str>,
    found_before: usize,
) -> Option<&'a str> {
    let long = |name: &str| name.chars().nth(1).is_some();
    if found_before >= HINTS || !long(word) {
        return None;
    }
    nearest(word, known.filter(|name| long(name)).take(NAMES))
}

fn did_you_mean(near: Option<&str>) -> Option<String> {
    near.map(|near| format!("did you mean `{near}`?"))
}
