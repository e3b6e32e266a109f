//! Instructions: what a program is turned into before it runs.
//!
//! A program runs on a machine with a stack of its own, so that however functions and expressions
//! are nested, our stack does not grow.

use resurgam_core::command::CallOptions;
use resurgam_core::gate::KeyTemplate;

use crate::ast::{Comparison, Operator};
use crate::errors::Lines;
use crate::value::Value;

/// A program, ready to run.
#[derive(Debug)]
pub(crate) struct Code {
    pub(super) functions: Vec<FunctionCode>,
    pub(super) constants: Vec<Value>,
    /// Names of fields.
    pub(super) names: Vec<String>,
    pub(super) actions: Vec<ActionSite>,
    pub(super) calls: Vec<CallSite>,
    /// The types that handlers are for.
    pub(super) handlers: Vec<Vec<String>>,
    pub(super) lines: Lines,
}

#[derive(Debug)]
pub(super) struct FunctionCode {
    pub(super) name: String,
    pub(super) instructions: Vec<Instruction>,
    /// Where each instruction comes from, in bytes.
    pub(super) places: Vec<u32>,
    /// The names of the variables; the first are the inputs.
    pub(super) variables: Vec<String>,
    pub(super) inputs: Vec<String>,
}

/// The call of an action in the program.
#[derive(Debug)]
pub(super) struct ActionSite {
    pub(super) name: String,
    pub(super) arguments: Vec<String>,
    pub(super) options: CallOptions,
    /// What makes the key of its gate.
    pub(super) gate: Option<KeyTemplate>,
    /// Whether a value comes in its place when attempts run out. It stands behind the arguments.
    pub(super) has_fallback: bool,
}

/// The call of a function in the program.
#[derive(Debug)]
pub(super) struct CallSite {
    pub(super) function: usize,
    /// The variable that each argument becomes.
    pub(super) variables: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Builtin {
    Range,
    Len,
    Enumerate,
    IsException,
}

/// What the machine does next. Operands are on the stack, the last one on top.
#[derive(Clone, Copy, Debug)]
pub(super) enum Instruction {
    Constant(usize),
    Load(usize),
    Store(usize),
    /// Refuses a variable that has no value.
    Need(usize),
    /// `x = x + top`.
    Append(usize),
    Pop,
    Unpack(usize),
    List(usize),
    Dict(usize),
    Calculate(Operator),
    Compare(Comparison),
    /// Compares the two on top. When that is false, that is the answer of the whole chain; else
    /// the second one stays for the next comparison.
    CompareOr(Comparison, usize),
    Not,
    Negate,
    Field(usize),
    Index,
    Jump(usize),
    JumpIfFalse(usize),
    /// Jumps and keeps the value, or drops it and goes on.
    JumpOrPopIfFalse(usize),
    JumpOrPopIfTrue(usize),
    Iterate,
    /// Goes through a range of so many operands without making a list of it.
    IterateRange(usize),
    /// The next item, or out of the loop.
    Next(usize),
    StopIterating,
    Try(usize),
    EndTry,
    /// Goes on when the failure is of one of these types, and else there.
    Catch(usize, usize),
    Bind(usize),
    Reraise,
    Builtin(Builtin, usize),
    Call(usize),
    Return,
    Act(usize),
    Sleep,
    /// Begins a list of jobs to run beside each other.
    Jobs,
    JobAct(usize),
    JobSleep,
    JobCall(usize),
    RunJobs,
}
