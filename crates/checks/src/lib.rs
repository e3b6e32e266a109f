//! The sources and pages of this repository, as its own checks read them.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder that everything is in.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of a file, by its path from the [root].
///
/// # Panics
/// When it cannot be read: that is what a check is to show.
pub fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Every file of ours with this ending: its path from the [root], and its text.
///
/// # Panics
/// When there are hardly any, and when one cannot be read.
pub fn files(ending: &str) -> Vec<(String, String)> {
    let mut folders = vec![root()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of ours") {
            let path = entry.expect("an entry of a folder of ours").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // A link leads to another file of ours.
            if path.is_symlink() {
                continue;
            }
            if path.is_dir() && !name.starts_with('.') && name != "target" && name != "ui" {
                folders.push(path);
            } else if name.ends_with(ending) {
                let inside = path.strip_prefix(root()).expect("a path below the root");
                let inside = inside.display().to_string();
                found.push((inside.clone(), read(&inside)));
            }
        }
    }
    assert!(found.len() > 2, "no {ending} files found");
    found
}
