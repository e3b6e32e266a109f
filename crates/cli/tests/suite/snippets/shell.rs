//! Commands of blocks: each is one that there is, with options that there are.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::processes;
use crate::snippets::page::{Block, root};
use crate::snippets::words;

/// Programs of others that guides may call.
const TOOLS: [&str; 17] = [
    "cargo", "cat", "cd", "chmod", "curl", "docker", "echo", "export", "git", "kill", "mkdir",
    "mv", "node", "psql", "python3", "rustup", "sqlite3",
];

/// Commands that work until they are told to stop, or for seconds: they are only parsed.
const LONG: [&str; 4] = ["worker", "server", "demo", "watch"];

pub(crate) fn check(block: &Block) -> Result<(), String> {
    match block.text.lines().next() {
        Some("#!/bin/sh") => grammar(&["sh", "-n"], &block.text),
        Some(first) if first.starts_with("#!") && first.contains("python") => python(block),
        _ => {
            lines(block).iter().flat_map(|line| words::commands(line)).try_for_each(|c| exists(&c))
        }
    }
}

/// The lines of a block that are commands, continued ones put together.
pub(crate) fn lines(block: &Block) -> Vec<String> {
    let text = block.text.replace("\\\n", " ");
    let lines = text.lines().map(str::trim);
    match block.kind() {
        "console" => lines.filter_map(|line| Some(line.strip_prefix("$ ")?.to_string())).collect(),
        _ => lines.map(str::to_string).collect(),
    }
}

fn exists(command: &[String]) -> Result<(), String> {
    let arguments: Vec<&str> = command[1..].iter().map(String::as_str).collect();
    match command[0].as_str() {
        "resurgam" => is_ours(&arguments),
        "cargo" => is_of_cargo(&arguments),
        tool if TOOLS.contains(&tool) || tool.starts_with("venv/bin/") => Ok(()),
        path if path.contains('/') && root().join(path).exists() => Ok(()),
        other => Err(format!("who is `{other}`? Add it to TOOLS, or write the block otherwise")),
    }
}

/// The definition of the command line takes these arguments. With `--help` behind them it says so,
/// or refuses what comes before; what is missing is told where the command would be run.
fn is_ours(arguments: &[&str]) -> Result<(), String> {
    let helped = processes::output(resurgam(Path::new("."), arguments).arg("--help"));
    if !helped.status.success() {
        return Err(refusal(arguments, &helped));
    }
    let is_long = arguments.first().is_some_and(|command| LONG.contains(command));
    if is_long || arguments.iter().any(|argument| argument.contains("postgres")) {
        return Ok(());
    }
    let nowhere = tempfile::tempdir().unwrap();
    let tried = processes::output(&mut resurgam(nowhere.path(), arguments));
    match String::from_utf8_lossy(&tried.stderr).contains("\nUsage: resurgam") {
        true => Err(refusal(arguments, &tried)),
        false => Ok(()),
    }
}

/// The program, to be run in this folder.
pub(crate) fn resurgam(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_resurgam"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).env_remove("RESURGAM_DB");
    command
}

/// Where a shell finds programs, with ours before all others.
pub(crate) fn path_with_us() -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_resurgam"));
    format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap())
}

fn refusal(arguments: &[&str], output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    format!("resurgam {}: {}", arguments.join(" "), said.lines().next().unwrap_or("refused"))
}

/// Names packages that there are; of our own program the arguments are looked at too.
fn is_of_cargo(arguments: &[&str]) -> Result<(), String> {
    let packages = arguments.windows(2).filter(|pair| ["-p", "--package"].contains(&pair[0]));
    let packages: Vec<&str> = packages.map(|pair| pair[1]).collect();
    let ours = ["resurgam", "resurgam-bench", "resurgam-examples"];
    for package in &packages {
        let folder = package.strip_prefix("resurgam-").unwrap_or(package);
        if !ours.contains(package) && !root().join("crates").join(folder).exists() {
            return Err(format!("cargo: there is no package {package}"));
        }
    }
    let behind = arguments.iter().position(|argument| *argument == "--");
    match behind {
        Some(at) if packages == ["resurgam-cli"] => is_ours(&arguments[at + 1..]),
        _ => Ok(()),
    }
}

pub(crate) fn python(block: &Block) -> Result<(), String> {
    grammar(
        &["python3", "-c", "import ast, sys; ast.parse(sys.stdin.read())"],
        &asynchronous(block),
    )
}

/// Awaiting at the top of a page is for readers; Python wants it in a function.
fn asynchronous(block: &Block) -> String {
    if !block.text.lines().any(|line| line.starts_with("await ")) {
        return block.text.clone();
    }
    let lines = block.text.lines().map(|line| format!("    {line}\n")).collect::<String>();
    format!("async def page():\n{lines}")
}

fn grammar(checker: &[&str], text: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("block");
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(checker[0]);
    command.args(&checker[1..]).stdin(std::fs::File::open(&file).unwrap());
    let output = processes::output(&mut command);
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}
