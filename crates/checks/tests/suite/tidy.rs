//! The repository is tidy, so that review can be about meaning.

use std::fs;
use std::path::PathBuf;

use resurgam_checks::{files, read, root};
use resurgam_watchdog::test;

#[test]
fn every_source_file_says_what_it_is_for() {
    let silent: Vec<String> = files(".rs")
        .into_iter()
        .filter(|(_, text)| !text.starts_with("//!"))
        .map(|(path, _)| path)
        .collect();
    assert_eq!(silent, Vec::<String>::new());
}

#[test]
fn no_comment_is_wider_than_the_code() {
    let mut long = Vec::new();
    for (path, text) in files(".rs") {
        let lines = text.lines().enumerate();
        let comments = lines.filter(|(_, line)| line.trim_start().starts_with("//"));
        let wide = comments.filter(|(_, line)| line.chars().count() > 100);
        long.extend(wide.map(|(number, _)| format!("{path}:{}", number + 1)));
    }
    assert_eq!(long, Vec::<String>::new());
}

/// What is used in a folder and would make it depend on more than its arguments.
fn impure(folder: &str) -> Vec<String> {
    let impure = [
        "tokio",
        "async",
        ".await",
        "Instant",
        "SystemTime",
        "fastrand",
        "rand::",
        "HashMap",
        "HashSet",
        "dyn Store",
        "dyn Clock",
    ];
    let mut found = Vec::new();
    for (path, text) in files(".rs").iter().filter(|(path, _)| path.starts_with(folder)) {
        let code = || text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let used = impure.iter().filter(|word| code().any(|line| line.contains(**word)));
        found.extend(used.map(|word| format!("{path}: {word}")));
    }
    found
}

#[test]
fn a_node_takes_time_and_chance_from_its_inputs_and_calls_no_store() {
    assert_eq!(impure("crates/worker/src/node/"), Vec::<String>::new());
}

#[test]
fn what_nodes_decide_about_each_other_takes_time_as_an_argument() {
    assert_eq!(impure("crates/store/src/fleet/"), Vec::<String>::new());
}

#[test]
fn nothing_is_left_for_later() {
    // Written in parts, so that this file does not find itself.
    let marks = [
        ["TO", "DO"],
        ["FIX", "ME"],
        ["XX", "X"],
        ["todo", "!("],
        ["unimplemented", "!("],
        ["<<<<", "<<< "],
        [">>>>", ">>> "],
    ];
    let mut left = Vec::new();
    for (path, text) in files(".rs").into_iter().chain(files(".md")) {
        for mark in &marks {
            if text.contains(&mark.concat()) {
                left.push(format!("{path}: {}", mark.concat()));
            }
        }
    }
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn the_first_two_commands_of_the_readme_are_one_line_each() {
    let readme = read("README.md");
    let blocks: Vec<&str> = readme.split("```sh\n").skip(1).take(2).collect();
    assert_eq!(blocks.len(), 2);
    for block in blocks {
        let command = block.split("```").next().unwrap();
        assert_eq!(command.trim().lines().count(), 1, "{command}");
    }
}

/// Where the links of a page lead: those in its text, and those that it defines below.
fn links(text: &str) -> Vec<&str> {
    let in_text = text.split("](").skip(1).filter_map(|link| link.split(')').next());
    let below = definitions(text).into_iter().map(|(_label, target)| target);
    in_text.chain(below).collect()
}

/// The lines `[label]: target` of a page.
fn definitions(text: &str) -> Vec<(&str, &str)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix('['));
    lines.filter_map(|line| line.split_once("]: ")).collect()
}

#[test]
fn every_link_of_a_page_leads_somewhere() {
    let mut dead = Vec::new();
    for (path, text) in files(".md") {
        let folder = root().join(&path).parent().unwrap().to_path_buf();
        for link in links(&text) {
            let target = link.split('#').next().unwrap();
            let local = !target.is_empty() && !target.contains(':');
            if local && !folder.join(target).exists() {
                dead.push(format!("{path}: {target}"));
            }
        }
    }
    assert_eq!(dead, Vec::<String>::new());
}

/// A guide is read as a file and as a page of the crate's documentation, where `retries.md` is
/// nowhere. So its links have labels, which the documentation defines in its own way.
#[test]
fn a_guide_leads_to_others_by_labels_that_the_documentation_knows() {
    let names = read("crates/resurgam/src/guide.rs");
    let named = names.split('"').filter(|name| name.ends_with(".md") && !name.starts_with(".."));
    let guides: Vec<&str> = named.filter(|name| *name != "links.md").chain(["README.md"]).collect();
    let known = read("crates/resurgam/src/links.md") + &read("docs/pictures/inline.md");
    let known: Vec<&str> = definitions(&known).into_iter().map(|(label, _)| label).collect();
    let mut wrong = Vec::new();
    for guide in &guides {
        let text = read(&format!("docs/{guide}"));
        let inside = |link: &&str| !link.starts_with('#') && !link.contains("://");
        let in_text = text.split("](").skip(1).filter_map(|link| link.split(')').next());
        wrong.extend(in_text.filter(inside).map(|link| format!("{guide}: ({link})")));
        for (label, target) in definitions(&text) {
            let elsewhere = target.contains("://");
            if !elsewhere && (label != target || !known.contains(&label)) {
                wrong.push(format!("{guide}: [{label}]: {target}"));
            }
        }
        let labels = text.split("][").skip(1).filter_map(|link| link.split(']').next());
        // What stands so in code names no file.
        let labels = labels.filter(|label| label.contains(".md") || label.contains(".svg"));
        let undefined = labels.filter(|label| !text.contains(&format!("\n[{label}]: ")));
        wrong.extend(undefined.map(|label| format!("{guide}: [{label}]")));
    }
    assert!(guides.len() > 10, "only {} guides found", guides.len());
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn every_metric_is_explained() {
    let page = read("docs/operations.md");
    let mut named = 0;
    for (path, text) in files(".rs").iter().filter(|(path, _)| path.contains("worker/src")) {
        for metric in text.split("!(\"resurgam.").skip(1) {
            let name = metric.split('"').next().unwrap();
            assert!(page.contains(&format!("`resurgam.{name}`")), "{path}: resurgam.{name}");
            named += 1;
        }
    }
    assert!(named > 5, "only {named} metrics found");
}

/// Where a file or folder is that the architecture names: from the top, without `crates`, or
/// without `src` too.
fn place(name: &str) -> Option<PathBuf> {
    let crates = root().join("crates");
    let inside =
        name.split_once('/').map(|(first, rest)| crates.join(first).join("src").join(rest));
    let mut places = inside.into_iter().chain([crates.join(name), root().join(name)]);
    places.find(|place| place.exists())
}

#[test]
fn every_file_and_every_test_that_the_architecture_names_is_there() {
    let page = read("ARCHITECTURE.md");
    let (mut missing, mut files, mut tests) = (Vec::new(), 0, 0);
    let mut last = root();
    for name in page.split('`').skip(1).step_by(2) {
        let is_test = name.matches('_').count() > 2 && !name.contains(['/', '.', ' ']);
        if is_test {
            tests += 1;
            let text = fs::read_to_string(&last).unwrap_or_default();
            if !text.contains(&format!("fn {name}(")) {
                missing.push(format!("{name} in {}", last.display()));
            }
        } else if name.ends_with(".rs") || (name.contains('/') && !name.ends_with('/')) {
            files += 1;
            let beside = last.with_file_name(name);
            let found = if name.contains('/') { place(name) } else { Some(beside) };
            match found.filter(|path| path.exists()) {
                Some(path) => last = path,
                None => missing.push(format!("{name} after {}", last.display())),
            }
        }
    }
    assert!(files > 80 && tests > 40, "only {files} files and {tests} tests found");
    assert_eq!(missing, Vec::<String>::new());
}
