//! Workflows as text files.
//!
//! A program in Rappel's language, of which two dialects exist, is read, checked and run by one
//! workflow: [`workflow`]. Its actions are activities by name, its brackets are retry policies.
//!
//! - [`Program::read`] reads and checks; [`Errors`] has everything that is wrong, with places.
//! - [`format()`] prints a program in one layout.
//! - [`Program::input`] makes the argument that an instance is started with.
//!
//! Nothing here knows where actions come from: executables are the command line's.

mod ast;
mod check;
mod dialect;
mod errors;
mod format;
mod hierarchy;
mod interpret;
mod lexer;
mod parser;
mod policy;
mod program;
#[cfg(test)]
mod properties;
mod value;

pub use dialect::Dialect;
pub use errors::{Error, Errors};
pub use interpret::workflow;
pub use program::{ActionUse, Program, ProgramInput, format};
pub use value::{Dict, List, Value};
