//! From a checked tree to instructions.

mod expression;
mod statement;

use std::collections::HashMap;

use super::code::{ActionSite, Builtin, CallSite, Code, FunctionCode, Instruction};
use crate::Dialect;
use crate::ast::{Action, Block, Call, CallRef, Function, FunctionCall, Tree};
use crate::check::SLEEP;
use crate::errors::{Lines, Span};
use crate::policy::{call_options, gate};
use crate::value::Value;

/// Turns a program into code. The error says what the checks should have found.
pub(crate) fn compile(text: &str, tree: &Tree, dialect: Dialect) -> Result<Code, String> {
    let functions: HashMap<&str, usize> =
        tree.functions.iter().enumerate().map(|(at, f)| (f.name.text.as_str(), at)).collect();
    let code = Code {
        functions: Vec::new(),
        constants: Vec::new(),
        names: Vec::new(),
        actions: Vec::new(),
        calls: Vec::new(),
        handlers: Vec::new(),
        lines: Lines::of(text),
    };
    let mut compiler = Compiler { tree, dialect, functions, code };
    for function in &tree.functions {
        let compiled = compiler.function(function)?;
        compiler.code.functions.push(compiled);
    }
    Ok(compiler.code)
}

struct Compiler<'a> {
    tree: &'a Tree,
    dialect: Dialect,
    functions: HashMap<&'a str, usize>,
    code: Code,
}

/// A function that is being compiled.
struct Body<'a, 'b> {
    program: &'b mut Compiler<'a>,
    out: FunctionCode,
    variables: HashMap<&'a str, usize>,
    loops: Vec<Loop>,
    /// How many `try` are open.
    tries: usize,
}

/// A loop that `break` and `continue` may leave.
struct Loop {
    head: usize,
    /// Jumps to its end, which is not known yet.
    breaks: Vec<usize>,
    tries: usize,
    iterates: bool,
}

impl<'a> Compiler<'a> {
    fn function(&mut self, function: &'a Function) -> Result<FunctionCode, String> {
        let out = FunctionCode {
            name: function.name.text.clone(),
            instructions: Vec::new(),
            places: Vec::new(),
            variables: Vec::new(),
            inputs: function.inputs.iter().map(|input| input.text.clone()).collect(),
        };
        let variables = HashMap::new();
        let mut body = Body { program: self, out, variables, loops: Vec::new(), tries: 0 };
        for input in &function.inputs {
            body.variable(&input.text);
        }
        body.block(&function.body)?;
        let end = Span { start: function.body.span.end, end: function.body.span.end };
        body.constant(Value::None, end);
        body.push(Instruction::Return, end);
        Ok(body.out)
    }
}

impl<'a> Body<'a, '_> {
    fn block(&mut self, block: &'a Block) -> Result<(), String> {
        block.statements.iter().try_for_each(|statement| self.statement(statement))
    }

    fn push(&mut self, instruction: Instruction, span: Span) -> usize {
        self.out.instructions.push(instruction);
        self.out.places.push(span.start);
        self.out.instructions.len() - 1
    }

    /// The place of the next instruction.
    fn here(&self) -> usize {
        self.out.instructions.len()
    }

    /// Makes a jump that went nowhere come here.
    fn land(&mut self, jump: usize) {
        let here = self.here();
        match &mut self.out.instructions[jump] {
            Instruction::Jump(to)
            | Instruction::JumpIfFalse(to)
            | Instruction::JumpOrPopIfFalse(to)
            | Instruction::JumpOrPopIfTrue(to)
            | Instruction::CompareOr(_, to)
            | Instruction::Next(to)
            | Instruction::Try(to)
            | Instruction::Catch(_, to) => *to = here,
            other => unreachable!("{other:?} jumps nowhere"),
        }
    }

    fn constant(&mut self, value: Value, span: Span) {
        self.program.code.constants.push(value);
        self.push(Instruction::Constant(self.program.code.constants.len() - 1), span);
    }

    /// The place of a variable, which is made when it is first named.
    fn variable(&mut self, name: &'a str) -> usize {
        if let Some(known) = self.variables.get(name) {
            return *known;
        }
        let place = self.fresh(name);
        self.variables.insert(name, place);
        place
    }

    fn fresh(&mut self, name: &str) -> usize {
        self.out.variables.push(name.to_string());
        self.out.variables.len() - 1
    }

    /// The arguments, and on top of them the value of its fallback.
    fn arguments_of_action(&mut self, action: &'a Action) -> Result<(), String> {
        CallRef::Action(action).arguments().into_iter().try_for_each(|value| self.expr(value))
    }

    fn action_site(&mut self, action: &Action) -> Result<usize, String> {
        let site = ActionSite {
            name: action.name.text.clone(),
            arguments: action.arguments.iter().map(|(name, _)| name.text.clone()).collect(),
            options: call_options(action, self.program.dialect)?,
            gate: gate(action)?.cloned(),
            has_fallback: action.fallback().is_some(),
        };
        self.program.code.actions.push(site);
        Ok(self.program.code.actions.len() - 1)
    }

    /// Calls an action and waits for it.
    fn act(&mut self, action: &'a Action) -> Result<(), String> {
        self.arguments_of_action(action)?;
        let instruction = match action.name.text == SLEEP {
            true => Instruction::Sleep,
            false => Instruction::Act(self.action_site(action)?),
        };
        self.push(instruction, action.span);
        Ok(())
    }

    /// Puts an action into the list of jobs.
    fn action_job(&mut self, action: &'a Action) -> Result<(), String> {
        self.arguments_of_action(action)?;
        let instruction = match action.name.text == SLEEP {
            true => Instruction::JobSleep,
            false => Instruction::JobAct(self.action_site(action)?),
        };
        self.push(instruction, action.span);
        Ok(())
    }

    fn call(&mut self, call: &'a FunctionCall) -> Result<(), String> {
        for argument in &call.arguments {
            self.expr(&argument.value)?;
        }
        let name = call.name.text.as_str();
        let instruction = match self.program.functions.get(name).copied() {
            Some(function) => Instruction::Call(self.call_site(call, function)?),
            None => Instruction::Builtin(builtin(name)?, call.arguments.len()),
        };
        self.push(instruction, call.span);
        Ok(())
    }

    fn call_site(&mut self, call: &FunctionCall, function: usize) -> Result<usize, String> {
        let inputs = &self.program.tree.functions[function].inputs;
        let mut variables = Vec::new();
        for (place, argument) in call.arguments.iter().enumerate() {
            let named = argument.name.as_ref();
            let by_name = named.and_then(|n| inputs.iter().position(|i| i.text == n.text));
            let variable = if named.is_some() { by_name } else { Some(place) };
            let variable = variable.filter(|variable| *variable < inputs.len());
            variables.push(variable.ok_or("an argument that no input takes")?);
        }
        self.program.code.calls.push(CallSite { function, variables });
        Ok(self.program.code.calls.len() - 1)
    }

    /// Runs calls beside each other.
    fn parallel(&mut self, calls: &'a [Call], span: Span) -> Result<(), String> {
        self.push(Instruction::Jobs, span);
        for call in calls {
            match call {
                Call::Action(action) => self.action_job(action)?,
                Call::Function(call) => {
                    for argument in &call.arguments {
                        self.expr(&argument.value)?;
                    }
                    let function = self.program.functions.get(call.name.text.as_str()).copied();
                    let function =
                        function.ok_or("only functions of the program run in parallel")?;
                    let site = self.call_site(call, function)?;
                    self.push(Instruction::JobCall(site), call.span);
                }
            }
        }
        self.push(Instruction::RunJobs, span);
        Ok(())
    }
}

fn builtin(name: &str) -> Result<Builtin, String> {
    match name {
        "range" => Ok(Builtin::Range),
        "len" => Ok(Builtin::Len),
        "enumerate" => Ok(Builtin::Enumerate),
        "isexception" => Ok(Builtin::IsException),
        other => Err(format!("function '{other}' is not defined")),
    }
}
