//! Where PostgreSQL's programs are, and how they get there.
//!
//! Looked for in this order: the folder that `RESURGAM_POSTGRES_BIN` names, the `PATH`, and where
//! packages put them, the newest version first. On Debian and Ubuntu a missing server is installed,
//! as root or with sudo. Where that cannot be done the tests that need it are skipped, each with a
//! sentence that says what to install.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::pooler;

/// Tells the folder with `initdb` and `postgres`.
const VARIABLE: &str = "RESURGAM_POSTGRES_BIN";

/// Tells the program of PgBouncer.
const POOLER: &str = "RESURGAM_PGBOUNCER";

/// Where packages put the programs, with the version in place of the star.
const PACKAGES: [&str; 5] = [
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/usr/local/pgsql*/bin",
];

/// The folder with PostgreSQL's programs, installed when it must be. Skips the test when there are
/// none and none can be had.
pub(crate) fn programs() -> PathBuf {
    if let Some(folder) = std::env::var_os(VARIABLE) {
        let folder = PathBuf::from(folder);
        assert!(
            has_server(&folder),
            "{VARIABLE} is {}, where initdb and postgres are not; set it to the folder that has both",
            folder.display()
        );
        return folder;
    }
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    found_or_skip(FOUND.get_or_init(find_server))
}

/// Where PgBouncer is, installed when it must be. Skips the test when there is none and none can be
/// had.
pub(crate) fn pooler() -> PathBuf {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    found_or_skip(FOUND.get_or_init(find_pooler))
}

fn found_or_skip(found: &Result<PathBuf, String>) -> PathBuf {
    match found {
        Ok(place) => place.clone(),
        Err(why) => resurgam_watchdog::skip(why),
    }
}

fn find_server() -> Result<PathBuf, String> {
    if let Some(folder) = installed() {
        return Ok(folder);
    }
    install()?;
    installed().ok_or_else(|| advice("it was installed, and initdb and postgres are nowhere"))
}

fn find_pooler() -> Result<PathBuf, String> {
    let find = || {
        let told = std::env::var_os(POOLER).map(PathBuf::from);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let on_path = std::env::split_paths(&path).map(|folder| folder.join("pgbouncer"));
        let places = pooler::PLACES.iter().map(PathBuf::from);
        told.into_iter().chain(on_path).chain(places).find(|place| place.is_file())
    };
    if let Some(program) = find() {
        return Ok(program);
    }
    let advice = format!(
        "there is no PgBouncer here. Install it (Debian, Ubuntu: apt-get install pgbouncer), or \
         set {POOLER} to the program"
    );
    if !Path::new("/usr/bin/apt-get").exists() {
        return Err(advice);
    }
    // Its package would start it as a service, which this forbids; the tests start their own.
    let quietly = "if [ ! -e /usr/sbin/policy-rc.d ]; then \
                       trap 'rm -f /usr/sbin/policy-rc.d' EXIT && \
                       printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d && \
                       chmod +x /usr/sbin/policy-rc.d; \
                   fi";
    eprintln!("PgBouncer is missing: installing it with apt-get, once");
    let install = "apt-get install -y --no-install-recommends pgbouncer";
    run_as_root(&[quietly, "apt-get update", install])
        .map_err(|why| format!("installing PgBouncer failed ({why}): {advice}"))?;
    find().ok_or(advice)
}

fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).find(|folder| has_server(folder)).map(linked);
    on_path.or_else(|| PACKAGES.iter().find_map(|pattern| newest(pattern)))
}

/// The folder in which the programs are that a folder has links to: the others are there, too.
fn linked(folder: PathBuf) -> PathBuf {
    let program = folder.join("postgres").canonicalize().ok();
    let real = program.and_then(|program| program.parent().map(Path::to_path_buf));
    real.filter(|real| has_server(real)).unwrap_or(folder)
}

fn has_server(folder: &Path) -> bool {
    ["initdb", "postgres", "pg_ctl"].iter().all(|program| folder.join(program).is_file())
}

/// The folder of the highest version that matches.
fn newest(pattern: &str) -> Option<PathBuf> {
    let (before, after) = pattern.split_once('*')?;
    let (parent, prefix) = before.rsplit_once('/')?;
    let entries = std::fs::read_dir(parent).ok()?.flatten();
    let versions = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let version = name.strip_prefix(prefix)?.parse::<f64>().ok()?;
        let folder = PathBuf::from(format!("{before}{}{after}", name.strip_prefix(prefix)?));
        has_server(&folder).then_some((version, folder))
    });
    versions.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, folder)| folder)
}

/// Installs the server with apt. The package would also make a database cluster and start it on
/// port 5432, which nobody asked for: a setting that it reads first says no.
fn install() -> Result<(), String> {
    if !Path::new("/usr/bin/apt-get").exists() {
        return Err(advice("there is no PostgreSQL server here"));
    }
    eprintln!("PostgreSQL is missing: installing it with apt-get, once");
    let steps = [
        "apt-get update",
        "apt-get install -y --no-install-recommends postgresql-common",
        "mkdir -p /etc/postgresql-common/createcluster.d",
        "printf 'create_main_cluster = false\\n' \
         > /etc/postgresql-common/createcluster.d/resurgam-tests.conf",
        "apt-get install -y --no-install-recommends postgresql",
    ];
    run_as_root(&steps)
        .map_err(|why| advice(&format!("PostgreSQL is missing, and installing it failed ({why})")))
}

fn run_as_root(steps: &[&str]) -> Result<(), String> {
    // The tests that need it wait meanwhile.
    resurgam_watchdog::allow_more(15);
    let steps = steps.join(" && ").replace("apt-get ", "apt-get -o DPkg::Lock::Timeout=300 ");
    let script = format!("export DEBIAN_FRONTEND=noninteractive; {steps}");
    let mut command = match is_root() {
        true => Command::new("sh"),
        false => {
            let mut sudo = Command::new("sudo");
            // Without a password or not at all: a test must not wait for somebody to type.
            sudo.args(["-n", "sh"]);
            sudo
        }
    };
    match command.args(["-c", &script]).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(status.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn advice(what: &str) -> String {
    format!(
        "{what}. Install PostgreSQL 13 or newer, server programs included (apt-get install \
         postgresql, dnf install postgresql-server, pacman -S postgresql, apk add postgresql, brew \
         install postgresql@17), or set {VARIABLE} to a folder that has initdb, postgres and pg_ctl"
    )
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn the_advice_names_what_to_install_and_the_variable() {
        let text = advice("there is none");
        for word in ["apt-get install postgresql", "brew install", VARIABLE, "13 or newer"] {
            assert!(text.contains(word), "{word:?} is not in: {text}");
        }
    }

    #[test]
    fn the_newest_version_wins_by_number_and_not_by_letter() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for version in ["9.6", "10", "17", "not a version"] {
            let bin = folder.path().join(version).join("bin");
            std::fs::create_dir_all(&bin).expect("a folder");
            for program in ["initdb", "postgres", "pg_ctl"] {
                std::fs::write(bin.join(program), "").expect("a file");
            }
        }
        let pattern = format!("{}/*/bin", folder.path().display());
        assert_eq!(newest(&pattern), Some(folder.path().join("17/bin")));
    }
}
