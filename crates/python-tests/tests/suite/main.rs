//! The tests of the Python package, run by the newest Python from 3.11 on that is there.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use resurgam_postgres_server::Server;
use resurgam_watchdog::test;

/// The oldest Python that the package is for, and the newest that this looks for by its name.
const OLDEST: u32 = 11;
const NEWEST: u32 = 15;

/// What the tests can use and the package does not need.
const EXTRAS: &[&[&str]] = &[
    &["pydantic>=2"],
    &["mypy", "pytest"],
    &["pyright[nodejs]"],
    &["fastapi", "httpx2"],
    &["django>=5"],
    &["uvloop"],
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}

/// What the tests make is kept there, so that the next run makes only what has changed.
fn workshop() -> PathBuf {
    root().join("target").join("python")
}

/// The newest Python that is there and old enough to be known.
fn newest_python() -> Option<PathBuf> {
    let named = (OLDEST..=NEWEST).rev().map(|minor| format!("python3.{minor}"));
    let chosen = std::env::var("RESURGAM_TEST_PYTHON").ok();
    let names = chosen.into_iter().chain(named).chain(["python3".to_string()]);
    names.map(PathBuf::from).find(|python| {
        let asks = format!("import sys, ssl, sqlite3; assert sys.version_info >= (3, {OLDEST})");
        let asked = Command::new(python).args(["-c", &asks]).output();
        asked.is_ok_and(|answer| answer.status.success())
    })
}

fn run(what: &str, command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{what}: {error}"));
    let (out, errors) = (&output.stdout, &output.stderr);
    assert!(
        output.status.success(),
        "{what} failed\n{}\n{}",
        String::from_utf8_lossy(out),
        String::from_utf8_lossy(errors)
    );
    output
}

/// Where the package can be imported from.
fn package(python: &Path) -> &'static Path {
    static PACKAGE: OnceLock<PathBuf> = OnceLock::new();
    PACKAGE.get_or_init(|| assembled(python))
}

/// Builds the extension and puts the package together. Answers with where it can be imported from.
fn assembled(python: &Path) -> PathBuf {
    let (sources, workshop) = (root().join("python"), workshop());
    let mut build = Command::new(env!("CARGO"));
    build
        .args(["build", "--locked", "--manifest-path"])
        .arg(sources.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&workshop)
        .env("PYO3_PYTHON", python)
        .env("PYO3_BUILD_EXTENSION_MODULE", "1");
    if cfg!(target_os = "macos") {
        build.env("RUSTFLAGS", "-C link-arg=-undefined -C link-arg=dynamic_lookup");
    }
    run("build the extension", &mut build);
    let package = workshop.join("package").join("resurgam");
    copy(&sources.join("resurgam"), &package);
    let library = if cfg!(target_os = "macos") { "lib_native.dylib" } else { "lib_native.so" };
    fs::copy(workshop.join("debug").join(library), package.join("_native.abi3.so")).unwrap();
    package.parent().unwrap().to_path_buf()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy(&source, &target);
        } else {
            fs::copy(source, target).unwrap();
        }
    }
}

/// A Python of its own with what the tests can use and the package does not need. Without a network
/// they do without it.
fn with_extras(python: &Path) -> &'static Path {
    static INSIDE: OnceLock<PathBuf> = OnceLock::new();
    INSIDE.get_or_init(|| venv(python))
}

fn venv(python: &Path) -> PathBuf {
    let venv = workshop().join("venv");
    let inside = venv.join("bin").join("python");
    if !inside.exists() {
        let made = Command::new(python).args(["-m", "venv"]).arg(&venv).output();
        if !made.is_ok_and(|made| made.status.success()) {
            println!("a virtual environment cannot be made: no test that needs them");
            return python.to_path_buf();
        }
    }
    // One after the other: where one cannot be had, such as uvloop for a new Python, others can.
    for extra in EXTRAS {
        let mut install = Command::new(&inside);
        install.args(["-m", "pip", "install", "--quiet"]).args(*extra);
        if !install.output().is_ok_and(|installed| installed.status.success()) {
            println!("{} cannot be installed: no test that needs it", extra.join(" and "));
        }
    }
    inside
}

/// The program `resurgam` of the same build, if it was built: without it, tests that need a server
/// are skipped.
fn command_line() -> Option<PathBuf> {
    let own = std::env::current_exe().unwrap();
    let program = own.parent()?.parent()?.join("resurgam");
    program.exists().then_some(program)
}

/// The interpreter, ready to run tests of the package with the package.
fn tester() -> Option<Command> {
    let Some(python) = newest_python() else {
        println!("there is no Python 3.{OLDEST} or newer: its tests are skipped");
        return None;
    };
    let mut tester = Command::new(with_extras(&python));
    tester
        .args(["-X", "dev", "-W", "ignore::ResourceWarning", "-m", "unittest"])
        .current_dir(root().join("python").join("tests"))
        .env("PYTHONPATH", package(&python))
        .env("PYTHONHASHSEED", "random");
    Some(tester)
}

#[test(minutes = 15)]
fn the_tests_of_the_python_package_pass() {
    let Some(mut tests) = tester() else { return };
    tests.arg("discover");
    match command_line() {
        Some(program) => drop(tests.env("RESURGAM_CLI", program)),
        None => println!("the program resurgam is not built: no test with a server"),
    }
    let output = run("the tests of the Python package", &mut tests);
    println!("{}", String::from_utf8_lossy(&output.stderr));
}

#[test(minutes = 15)]
fn apps_in_python_work_on_postgresql() {
    let Some(mut tests) = tester() else { return };
    Server::require();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let database = runtime.block_on(Server::shared().database());
    tests.arg("test_postgres").env("RESURGAM_TEST_POSTGRES", database.tcp_url());
    let output = run("the tests on PostgreSQL", &mut tests);
    println!("{}", String::from_utf8_lossy(&output.stderr));
}
