//! The machine that runs instructions until they wait for something.
//!
//! Pure: it calls nothing and waits for nothing. What it cannot do itself it hands out as a
//! [`Step`], and takes the answer back with [`Machine::resume`]. The same answers lead the same
//! way, which is what replay relies on.

use std::sync::Arc;
use std::time::Duration;

use resurgam_core::command::CallOptions;
use resurgam_core::retry::Exhausted;
use resurgam_core::{Failure, Kind, Payload};

use super::builtins;
use super::code::{Code, FunctionCode, Instruction};
use super::exception::exception;
use crate::ast::Operator;
use crate::hierarchy::is_a;
use crate::value::{Items, Value, raised};

/// How many instructions may be made between two waits. A program that loops for ever would hold
/// up every other one on its node.
const MOST_STEPS: u32 = 10_000_000;

/// The type of the failure that ends a program which never waits.
const STEP_LIMIT: &str = "StepLimit";

/// What the machine needs before it can go on.
#[derive(Debug)]
pub(super) enum Step {
    /// Nothing: it is done.
    Done(Result<Value, Failure>),
    /// The value of one job.
    One(Job),
    /// The values of all these, as a list.
    All(Vec<Job>),
}

/// Something that takes time.
#[derive(Debug)]
pub(super) enum Job {
    Act { name: String, input: Payload, options: CallOptions },
    Sleep(Duration),
    Call(Machine),
}

#[derive(Debug)]
pub(super) struct Machine {
    code: Arc<Code>,
    frames: Vec<Frame>,
    stack: Vec<Value>,
    loops: Vec<Items>,
    jobs: Vec<Vec<Job>>,
    tries: Vec<Try>,
    /// The failure that handlers are being asked about.
    failure: Option<Failure>,
    steps: u32,
}

/// A function that is running.
#[derive(Debug)]
struct Frame {
    function: usize,
    next: usize,
    variables: Vec<Option<Value>>,
    heights: Heights,
}

/// A `try` block that is open.
#[derive(Debug)]
struct Try {
    frames: usize,
    handlers: usize,
    heights: Heights,
}

/// How far to go back when something is left in the middle.
#[derive(Clone, Copy, Debug)]
struct Heights {
    stack: usize,
    loops: usize,
    jobs: usize,
    tries: usize,
}

impl Machine {
    /// A machine at the beginning of a function, with its inputs in their order.
    pub(super) fn new(code: Arc<Code>, function: usize, inputs: Vec<Option<Value>>) -> Self {
        let mut machine = Machine {
            code,
            frames: Vec::new(),
            stack: Vec::new(),
            loops: Vec::new(),
            jobs: Vec::new(),
            tries: Vec::new(),
            failure: None,
            steps: 0,
        };
        machine.enter(function, inputs);
        machine
    }

    /// Takes what it waited for.
    pub(super) fn resume(&mut self, answer: Result<Value, Failure>) -> Option<Failure> {
        self.steps = 0;
        match answer {
            Ok(value) => {
                self.stack.push(value);
                None
            }
            Err(failure) => self.raise(failure),
        }
    }

    /// Goes on until it needs something.
    pub(super) fn run(&mut self) -> Step {
        loop {
            match self.step() {
                Ok(None) => {}
                Ok(Some(step)) => return step,
                Err(failure) => {
                    let failure = self.placed(failure);
                    if let Some(failure) = self.raise(failure) {
                        return Step::Done(Err(failure));
                    }
                }
            }
        }
    }

    /// Goes to the innermost handlers, or answers that there are none.
    fn raise(&mut self, failure: Failure) -> Option<Failure> {
        // The end of the run is not for the program to stop.
        let fatal =
            failure.kind == Kind::Cancelled || failure.type_name.as_deref() == Some(STEP_LIMIT);
        if fatal {
            return Some(failure);
        }
        let Some(attempt) = self.tries.pop() else { return Some(failure) };
        self.frames.truncate(attempt.frames);
        self.back_to(attempt.heights);
        self.frame().next = attempt.handlers;
        self.failure = Some(failure);
        None
    }

    /// Says where in the program a failure of the interpreter's own happened.
    fn placed(&self, mut failure: Failure) -> Failure {
        let Some(frame) = self.frames.last().filter(|_| failure.details.is_none()) else {
            return failure;
        };
        let function = &self.code.functions[frame.function];
        let place = function.places[frame.next.saturating_sub(1)] as usize;
        let line = self.code.lines.number(place);
        failure.details = Some(serde_json::json!({ "function": function.name, "line": line }));
        failure
    }

    fn step(&mut self) -> Result<Option<Step>, Failure> {
        self.steps += 1;
        if self.steps > MOST_STEPS {
            let what = format!(
                "the program made {MOST_STEPS} steps without waiting for anything; leave long \
                 calculations to actions"
            );
            return Err(Failure::terminal(what).with_type(STEP_LIMIT));
        }
        let code = self.code.clone();
        let frame = self.frame();
        let instruction = code.functions[frame.function].instructions[frame.next];
        frame.next += 1;
        match instruction {
            Instruction::Act(site) => {
                let job = self.act(&code, site)?;
                return Ok(Some(Step::One(job)));
            }
            Instruction::Sleep => {
                let time = builtins::duration(&self.pop())?;
                return Ok(Some(Step::One(Job::Sleep(time))));
            }
            Instruction::RunJobs => {
                let jobs = self.jobs.pop().unwrap_or_default();
                return Ok(Some(Step::All(jobs)));
            }
            Instruction::Return => {
                let value = self.pop();
                return Ok(self.leave(value));
            }
            Instruction::Reraise => {
                let failure = self.failure.take().unwrap_or_default();
                return Ok(self.raise(failure).map(|failure| Step::Done(Err(failure))));
            }
            Instruction::JobAct(site) => {
                let job = self.act(&code, site)?;
                self.add_job(job);
            }
            Instruction::JobSleep => {
                let time = builtins::duration(&self.pop())?;
                self.add_job(Job::Sleep(time));
            }
            Instruction::JobCall(site) => {
                let (function, inputs) = self.inputs(&code, site);
                self.add_job(Job::Call(Machine::new(code, function, inputs)));
            }
            Instruction::Jobs => self.jobs.push(Vec::new()),
            Instruction::Call(site) => {
                let (function, inputs) = self.inputs(&code, site);
                self.enter(function, inputs);
            }
            other => self.simple(&code, other)?,
        }
        Ok(None)
    }

    /// Instructions that are about values and variables only.
    fn simple(&mut self, code: &Code, instruction: Instruction) -> Result<(), Failure> {
        match instruction {
            Instruction::Constant(at) => self.stack.push(code.constants[at].clone()),
            Instruction::Load(variable) => {
                let value = self.variable(code, variable)?.clone();
                self.stack.push(value);
            }
            Instruction::Store(variable) => {
                let value = self.pop();
                self.frame().variables[variable] = Some(value);
            }
            Instruction::Need(variable) => {
                self.variable(code, variable)?;
            }
            Instruction::Append(variable) => {
                let added = self.pop();
                self.variable(code, variable)?.append(&added)?;
            }
            Instruction::Pop => {
                self.pop();
            }
            Instruction::Unpack(count) => self.unpack(count)?,
            Instruction::List(count) => {
                let items = self.stack.split_off(self.stack.len() - count);
                self.stack.push(Value::list(items)?);
            }
            Instruction::Dict(count) => {
                let parts = self.stack.split_off(self.stack.len() - 2 * count);
                self.stack.push(builtins::dict(parts)?);
            }
            Instruction::Calculate(operator) => self.calculate(operator)?,
            Instruction::Compare(comparison) => {
                let (a, b) = self.two();
                self.stack.push(Value::Bool(a.compare(comparison, &b)?));
            }
            Instruction::Not => {
                let value = self.pop();
                self.stack.push(Value::Bool(!value.is_true()));
            }
            Instruction::Negate => {
                let value = self.pop();
                self.stack.push(value.negate()?);
            }
            Instruction::Field(name) => {
                let value = self.pop();
                self.stack.push(value.field(&code.names[name])?);
            }
            Instruction::Index => {
                let (value, index) = self.two();
                self.stack.push(value.index(&index)?);
            }
            Instruction::Builtin(builtin, count) => {
                let arguments = self.stack.split_off(self.stack.len() - count);
                self.stack.push(builtins::call(builtin, &arguments)?);
            }
            other => self.go(code, other)?,
        }
        Ok(())
    }

    /// Instructions that decide which one is next.
    fn go(&mut self, code: &Code, instruction: Instruction) -> Result<(), Failure> {
        match instruction {
            Instruction::Jump(to) => self.frame().next = to,
            Instruction::JumpIfFalse(to) => {
                if !self.pop().is_true() {
                    self.frame().next = to;
                }
            }
            Instruction::JumpOrPopIfFalse(to) => self.jump_or_pop(to, false),
            Instruction::JumpOrPopIfTrue(to) => self.jump_or_pop(to, true),
            Instruction::CompareOr(comparison, to) => {
                let (a, b) = self.two();
                match a.compare(comparison, &b)? {
                    true => self.stack.push(b),
                    false => {
                        self.stack.push(Value::Bool(false));
                        self.frame().next = to;
                    }
                }
            }
            Instruction::Iterate => {
                let items = self.pop().items()?;
                self.loops.push(items);
            }
            Instruction::IterateRange(count) => {
                let arguments = self.stack.split_off(self.stack.len() - count);
                self.loops.push(builtins::range(&arguments)?);
            }
            Instruction::Next(to) => match self.loops.last_mut().and_then(Iterator::next) {
                Some(item) => self.stack.push(item),
                None => {
                    self.loops.pop();
                    self.frame().next = to;
                }
            },
            Instruction::StopIterating => {
                self.loops.pop();
            }
            Instruction::Try(handlers) => {
                let (frames, heights) = (self.frames.len(), self.heights());
                self.tries.push(Try { frames, handlers, heights });
            }
            Instruction::EndTry => {
                self.tries.pop();
            }
            Instruction::Catch(types, to) => {
                let types = &code.handlers[types];
                let failure = self.failure.as_ref();
                let matches = |failure: &Failure| {
                    types.is_empty() || types.iter().any(|name| is_a(failure, name))
                };
                if !failure.is_some_and(matches) {
                    self.frame().next = to;
                }
            }
            Instruction::Bind(variable) => {
                let failure = self.failure.take().unwrap_or_default();
                self.frame().variables[variable] = Some(exception(&failure)?);
            }
            other => unreachable!("{other:?} is done elsewhere"),
        }
        Ok(())
    }

    fn jump_or_pop(&mut self, to: usize, when: bool) {
        match self.stack.last().is_some_and(|top| top.is_true() == when) {
            true => self.frame().next = to,
            false => {
                self.pop();
            }
        }
    }

    fn calculate(&mut self, operator: Operator) -> Result<(), Failure> {
        let (a, b) = self.two();
        self.stack.push(a.calculate(operator, &b)?);
        Ok(())
    }

    /// The items of a value, the first one on top.
    fn unpack(&mut self, count: usize) -> Result<(), Failure> {
        let value = self.pop();
        let items = value.items().map_err(|_| {
            let what = format!("cannot unpack non-iterable {} object", value.type_name());
            raised("TypeError", what)
        })?;
        let mut items: Vec<Value> = items.take(count + 1).collect();
        if items.len() != count {
            let few = items.len() < count;
            let what = match few {
                true => {
                    format!("not enough values to unpack (expected {count}, got {})", items.len())
                }
                false => format!("too many values to unpack (expected {count})"),
            };
            return Err(raised("ValueError", what));
        }
        items.reverse();
        self.stack.append(&mut items);
        Ok(())
    }

    /// The call of an action, with its arguments from the stack.
    fn act(&mut self, code: &Code, site: usize) -> Result<Job, Failure> {
        let site = &code.actions[site];
        let fallback = site.has_fallback.then(|| self.pop());
        let values = self.stack.split_off(self.stack.len() - site.arguments.len());
        let names = site.arguments.iter().map(|name| Arc::new(name.clone()));
        let input = Value::dict(names.zip(values).collect())?.to_payload()?;
        let mut options = site.options.clone();
        if let Some((value, policy)) = fallback.zip(options.retry.as_deref_mut()) {
            let value = value.to_payload()?.decode();
            let value = value.map_err(|error| raised("ValueError", error.to_string()))?;
            policy.on_exhausted = Exhausted::FallbackValue(value);
        }
        options.gate = site
            .gate
            .as_ref()
            .map(|template| template.key(&input.decode::<serde_json::Value>().unwrap_or_default()));
        Ok(Job::Act { name: site.name.clone(), input, options })
    }

    /// The inputs of a function, with their values from the stack.
    fn inputs(&mut self, code: &Code, site: usize) -> (usize, Vec<Option<Value>>) {
        let site = &code.calls[site];
        let values = self.stack.split_off(self.stack.len() - site.variables.len());
        let mut inputs = vec![None; code.functions[site.function].inputs.len()];
        for (variable, value) in site.variables.iter().zip(values) {
            inputs[*variable] = Some(value);
        }
        (site.function, inputs)
    }

    fn enter(&mut self, function: usize, mut inputs: Vec<Option<Value>>) {
        inputs.resize(self.code.functions[function].variables.len(), None);
        let heights = self.heights();
        self.frames.push(Frame { function, next: 0, variables: inputs, heights });
    }

    /// Returns from a function; from the first one the program ends.
    fn leave(&mut self, value: Value) -> Option<Step> {
        if let Some(frame) = self.frames.pop() {
            self.back_to(frame.heights);
        }
        if self.frames.is_empty() {
            return Some(Step::Done(Ok(value)));
        }
        self.stack.push(value);
        None
    }

    fn add_job(&mut self, job: Job) {
        if let Some(jobs) = self.jobs.last_mut() {
            jobs.push(job);
        }
    }

    fn heights(&self) -> Heights {
        Heights {
            stack: self.stack.len(),
            loops: self.loops.len(),
            jobs: self.jobs.len(),
            tries: self.tries.len(),
        }
    }

    fn back_to(&mut self, heights: Heights) {
        self.stack.truncate(heights.stack);
        self.loops.truncate(heights.loops);
        self.jobs.truncate(heights.jobs);
        self.tries.truncate(heights.tries);
    }

    fn frame(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("a machine that runs is in a function")
    }

    fn variable(&mut self, code: &Code, variable: usize) -> Result<&mut Value, Failure> {
        let frame = self.frames.last_mut().expect("a machine that runs is in a function");
        let FunctionCode { name, variables, .. } = &code.functions[frame.function];
        frame.variables[variable].as_mut().ok_or_else(|| {
            let what = format!(
                "variable '{}' referenced before assignment in function '{name}'",
                variables[variable]
            );
            raised("UnboundLocalError", what)
        })
    }

    fn pop(&mut self) -> Value {
        self.stack.pop().expect("an instruction finds its operands")
    }

    /// The two on top, the lower one first.
    fn two(&mut self) -> (Value, Value) {
        let b = self.pop();
        (self.pop(), b)
    }
}
