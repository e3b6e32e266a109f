//! The patches that break the engine on purpose still name lines that are there.

use resurgam_checks::{read, root};
use resurgam_watchdog::test;

/// What each hunk of a patch expects to find, with the file that it is for.
fn expected(patch: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut file = "";
    for line in patch.lines() {
        if let Some(path) = line.strip_prefix("--- a/") {
            file = path;
        } else if line.starts_with("@@ ") {
            found.push((file.to_owned(), String::new()));
        } else if let Some((_, before)) = found.last_mut()
            && let Some(text) = line.strip_prefix([' ', '-'])
            && !line.starts_with("--- ")
        {
            before.push_str(text);
            before.push('\n');
        }
    }
    found
}

#[test]
fn every_patch_of_the_simulators_mutants_still_applies() {
    let folder = root().join("crates/simulator/mutants");
    let patches = std::fs::read_dir(&folder).unwrap();
    let mut paths: Vec<_> = patches.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 10, "{} has only {} patches", folder.display(), paths.len());
    let mut stale = Vec::new();
    for path in paths {
        let hunks = expected(&std::fs::read_to_string(&path).unwrap());
        assert!(!hunks.is_empty(), "{} changes nothing", path.display());
        let moved = hunks.iter().filter(|(file, before)| !read(file).contains(before.as_str()));
        stale.extend(moved.map(|(file, _)| format!("{}: {file}", path.display())));
    }
    assert_eq!(stale, Vec::<String>::new(), "write these patches anew");
}
