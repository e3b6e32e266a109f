//! The folder that actions are in. Executables may come and go while we run.
//!
//! Names are only ever compared with what the folder lists, so no name leads out of it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use resurgam_core::config::nearest;
use resurgam_sdk::{ActivityDefinition, ActivitySource};

use super::Runner;

/// How deep folders in the folder are looked into.
const DEPTH: usize = 8;

/// The most files that are looked at: a folder with more of them was not meant.
const MOST: usize = 20_000;

/// A folder of actions.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    runner: Arc<Runner>,
    found: RwLock<Found>,
}

/// What was in the folder when it was last looked at.
#[derive(Debug, Default)]
struct Found {
    actions: BTreeMap<String, (PathBuf, Arc<ActivityDefinition>)>,
    /// Files that nobody may execute, by the name that they would have.
    others: BTreeSet<String>,
}

impl Folder {
    /// Looks at a folder, which must be there.
    pub(crate) fn open(path: &Path, runner: Runner) -> io::Result<Self> {
        // An action is found wherever it is started from.
        let path = path.canonicalize()?;
        let folder = Folder { path, runner: Arc::new(runner), found: RwLock::default() };
        folder.look()?;
        Ok(folder)
    }

    pub(crate) fn runner(&self) -> &Runner {
        &self.runner
    }

    /// Looks at the folder again. True when something has come or gone.
    pub(crate) fn look(&self) -> io::Result<bool> {
        let listed = list(&self.path)?;
        let mut found = self.found.write().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut found.actions);
        let mut has_changed = false;
        for (name, file) in listed.actions {
            let known = before.remove(&name).filter(|(known, _)| *known == file);
            has_changed |= known.is_none();
            let action = known.unwrap_or_else(|| {
                let definition = definition(name.clone(), file.clone(), self.runner.clone());
                (file, Arc::new(definition))
            });
            found.actions.insert(name, action);
        }
        found.others = listed.others;
        Ok(has_changed || !before.is_empty())
    }

    /// Why there is no action of this name, `None` when there is one.
    pub(crate) fn lacks(&self, name: &str) -> Option<String> {
        let found = self.found.read().unwrap_or_else(PoisonError::into_inner);
        let folder = self.path.display();
        if found.actions.contains_key(name) {
            return None;
        }
        if found.others.contains(name) {
            return Some(format!("{folder}/{name} is not executable; chmod +x makes it so"));
        }
        let known = found.actions.keys().chain(&found.others).map(String::as_str);
        let advice = nearest(name, known).map(|near| format!("; did you mean \"{near}\"?"));
        Some(format!("{folder} has no executable {name}{}", advice.unwrap_or_default()))
    }
}

impl ActivitySource for Folder {
    fn find(&self, name: &str) -> Option<Arc<ActivityDefinition>> {
        let found = self.found.read().unwrap_or_else(PoisonError::into_inner);
        found.actions.get(name).map(|(_, definition)| definition.clone())
    }

    fn names(&self) -> Vec<String> {
        let found = self.found.read().unwrap_or_else(PoisonError::into_inner);
        found.actions.keys().cloned().collect()
    }
}

fn definition(name: String, file: PathBuf, runner: Arc<Runner>) -> ActivityDefinition {
    let asked = runner.clone();
    ActivityDefinition::new(name, move |ctx, input| {
        let (file, runner) = (file.clone(), runner.clone());
        Box::pin(async move { runner.attempt(&file, &ctx, &input).await })
    })
    .lacking(move |input| asked.lacks(input))
}

/// The files of a folder, by the names of actions that they are.
#[derive(Debug, Default, PartialEq)]
struct Listed {
    actions: BTreeMap<String, PathBuf>,
    others: BTreeSet<String>,
}

/// A file `a/b` is the action `a.b`, unless there is a file `a.b`.
fn list(folder: &Path) -> io::Result<Listed> {
    let mut listed = Listed::default();
    let mut left = MOST;
    let mut level = vec![(String::new(), folder.to_path_buf())];
    for depth in 0..DEPTH {
        let mut next = Vec::new();
        for (prefix, folder) in level {
            let entries = match std::fs::read_dir(&folder) {
                Ok(entries) => entries,
                // Only the folder itself has to be there.
                Err(error) if depth == 0 => return Err(error),
                Err(_) => continue,
            };
            for entry in entries.flatten() {
                left = left.checked_sub(1).ok_or_else(|| too_many(&folder))?;
                let file_name = entry.file_name();
                let Some(name) = file_name.to_str().filter(|name| !name.starts_with('.')) else {
                    continue;
                };
                // It may have gone since, or be a link to nowhere.
                let Ok(about) = std::fs::metadata(entry.path()) else { continue };
                let name = format!("{prefix}{name}");
                if about.is_dir() {
                    next.push((format!("{name}."), entry.path()));
                } else if about.permissions().mode() & 0o111 == 0 {
                    listed.others.insert(name);
                } else if about.is_file() {
                    listed.actions.entry(name).or_insert_with(|| entry.path());
                }
            }
        }
        level = next;
    }
    Ok(listed)
}

fn too_many(folder: &Path) -> io::Error {
    let folder = folder.display();
    io::Error::other(format!("{folder} has more than {MOST} files; is it a folder of actions?"))
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;
    use std::fs;

    use super::super::launch::Launcher;
    use super::*;

    fn write(folder: &Path, name: &str, mode: u32) {
        let file = folder.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn open(folder: &Path) -> Folder {
        Folder::open(folder, Runner::new(Launcher::Plain, None).unwrap()).unwrap()
    }

    #[test]
    fn a_dotted_name_is_a_file_of_that_name_or_else_one_in_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["charge", "payments.charge", "payments/charge", "payments/eu/refund", ".git/x"]
        {
            write(folder.path(), name, 0o755);
        }
        let found = open(folder.path());
        assert_eq!(found.names(), ["charge", "payments.charge", "payments.eu.refund"]);
        let files = found.found.read().unwrap();
        assert!(files.actions["payments.charge"].0.ends_with("payments.charge"));
        assert!(files.actions["payments.eu.refund"].0.ends_with("payments/eu/refund"));
    }

    #[test]
    fn no_name_leads_out_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "outside", 0o755);
        write(folder.path(), "in/charge", 0o755);
        let found = open(&folder.path().join("in"));
        for name in ["../outside", "..", "./charge", "/bin/sh", "", "."] {
            assert!(found.find(name).is_none(), "{name}");
        }
    }

    #[test]
    fn what_is_missing_is_told_with_what_was_probably_meant() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "charge", 0o755);
        write(folder.path(), "refund", 0o644);
        let found = open(folder.path());
        assert_eq!(found.lacks("charge"), None);
        let lacks = |name| found.lacks(name).unwrap();
        assert!(lacks("chrage").ends_with("has no executable chrage; did you mean \"charge\"?"));
        assert!(lacks("refund").ends_with("/refund is not executable; chmod +x makes it so"));
        assert!(lacks("send_mail").ends_with("has no executable send_mail"));
    }

    #[test]
    fn an_executable_that_comes_later_is_found_and_one_that_goes_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let found = open(folder.path());
        assert!(found.find("charge").is_none());
        write(folder.path(), "charge", 0o755);
        assert!(found.look().unwrap());
        assert!(found.find("charge").is_some() && !found.look().unwrap());
        fs::remove_file(folder.path().join("charge")).unwrap();
        assert!(found.look().unwrap());
        assert!(found.find("charge").is_none());
    }
}
