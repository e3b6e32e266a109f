//! The browser and the tools of the tests, and how they get there.
//!
//! Chromium and its driver are looked for on the `PATH`; on Debian and Ubuntu they are installed
//! where they are missing, as root or with sudo. What npm has (axe-core, TypeScript) is put into
//! `target/`. Where something cannot be had, the tests that need it are skipped with a sentence.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// What checks pages for everybody to use, and its version.
const AXE: &str = "axe-core@4.14.1";

/// What checks types, and its version.
const TYPESCRIPT: &str = "typescript@5.9.3";

/// A browser, and what drives it.
#[derive(Clone)]
pub(crate) struct Programs {
    pub(crate) browser: PathBuf,
    pub(crate) driver: PathBuf,
}

impl Programs {
    /// Where they are. Skips the test when there are none and none can be had.
    pub(crate) fn found() -> Programs {
        static FOUND: OnceLock<Result<Programs, String>> = OnceLock::new();
        let found = FOUND.get_or_init(|| match look() {
            Some(found) => Ok(found),
            None => install().and_then(|()| look().ok_or_else(advice)),
        });
        match found {
            Ok(found) => found.clone(),
            Err(why) => resurgam_watchdog::skip(why),
        }
    }
}

fn look() -> Option<Programs> {
    let browser = on_path("chromium").or_else(|| on_path("chromium-browser"))?;
    Some(Programs { browser, driver: on_path("chromedriver")? })
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn advice() -> String {
    "there is no browser here. Install Chromium and its driver (Debian: apt-get install chromium \
     chromium-driver)"
        .to_string()
}

fn install() -> Result<(), String> {
    if !Path::new("/usr/bin/apt-get").exists() {
        return Err(advice());
    }
    // The tests that need it wait meanwhile.
    resurgam_watchdog::allow_more(15);
    eprintln!("Chromium is missing: installing it with apt-get, once");
    let script = "export DEBIAN_FRONTEND=noninteractive; \
                  apt-get -o DPkg::Lock::Timeout=300 update && \
                  apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends chromium chromium-driver";
    let is_root = Command::new("id").arg("-u").output();
    let mut command = match is_root.is_ok_and(|told| told.stdout.trim_ascii() == b"0") {
        true => Command::new("sh"),
        false => {
            let mut sudo = Command::new("sudo");
            // Without a password or not at all: a test must not wait for somebody to type.
            sudo.args(["-n", "sh"]);
            sudo
        }
    };
    match command.args(["-c", script]).output() {
        Ok(told) if told.status.success() => Ok(()),
        Ok(told) => Err(format!("{}; installing it failed ({})", advice(), told.status)),
        Err(error) => Err(format!("{}; installing it failed ({error})", advice())),
    }
}

/// The folder with what npm has for the tests. Skips the test where it cannot be had.
pub(crate) fn from_npm() -> PathBuf {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match FOUND.get_or_init(install_from_npm) {
        Ok(folder) => folder.clone(),
        Err(why) => resurgam_watchdog::skip(why),
    }
}

fn install_from_npm() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let folder = root.join("target").join("dashboard-tools");
    let modules = folder.join("node_modules");
    let has = |name: &str| modules.join(name).join("package.json").is_file();
    if has("axe-core") && has("typescript") {
        return Ok(modules);
    }
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    resurgam_watchdog::allow_more(5);
    let mut npm = Command::new("npm");
    npm.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]).arg(&folder);
    match npm.args([AXE, TYPESCRIPT]).output() {
        Ok(told) if told.status.success() => Ok(modules),
        Ok(told) => Err(format!("npm cannot have {AXE} and {TYPESCRIPT} ({})", told.status)),
        Err(error) => Err(format!("there is no npm here, which has {AXE} ({error})")),
    }
}
