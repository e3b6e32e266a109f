//! Pages, their fenced blocks, and where pages are included.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A Markdown file.
pub(crate) struct Page {
    pub(crate) path: PathBuf,
    pub(crate) blocks: Vec<Block>,
}

/// A fenced block.
pub(crate) struct Block {
    /// The page.
    pub(crate) path: PathBuf,
    line: usize,
    /// What stands behind the fence.
    pub(crate) info: String,
    /// What stands between the fences.
    pub(crate) text: String,
    /// The file that the paragraph before it names.
    pub(crate) name: Option<String>,
    /// The comment above the fence.
    comment: Option<String>,
}

impl Block {
    /// The first word behind the fence.
    pub(crate) fn kind(&self) -> &str {
        self.info.split([',', ' ']).next().unwrap_or("")
    }

    /// What the comment above the fence says about this.
    pub(crate) fn mark(&self, what: &str) -> Option<&str> {
        let comment = self.comment.as_deref()?;
        comment.strip_prefix(what)?.strip_prefix(':').map(str::trim)
    }

    /// Code of another system, beside ours.
    pub(crate) fn is_theirs(&self) -> bool {
        self.mark("theirs").is_some()
    }

    /// Where it is, for people.
    pub(crate) fn at(&self) -> String {
        let path = self.path.strip_prefix(root()).unwrap_or(&self.path);
        format!("{}:{}", path.display(), self.line)
    }
}

/// The repository.
pub(crate) fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap()
}

/// The README, the guides and the pages of the examples.
pub(crate) fn pages() -> Vec<Page> {
    let mut paths = vec![root().join("README.md")];
    paths.extend(files(&root().join("docs"), ".md"));
    paths.extend(files(&root().join("examples"), ".md"));
    paths.sort();
    paths.into_iter().map(|path| Page { blocks: blocks(&path), path }).collect()
}

/// All files below a folder whose names end like this. Links are not followed.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().unwrap().is_dir() && name != "target" && name != "ui" {
            found.extend(files(&entry.path(), ending));
        } else if name.ends_with(ending) {
            found.push(entry.path());
        }
    }
    found
}

fn blocks(path: &Path) -> Vec<Block> {
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        if let Some(info) = lines[at].trim_start().strip_prefix("```") {
            let length = lines[at + 1..].iter().position(|line| line.trim() == "```");
            let end = at + 1 + length.unwrap_or_else(|| panic!("{path:?}:{} has no end", at + 1));
            let (name, comment) = before(&lines[..at]);
            let text = lines[at + 1..end].iter().map(|line| format!("{line}\n")).collect();
            let (path, info) = (path.to_path_buf(), info.trim().to_string());
            blocks.push(Block { path, line: at + 1, info, text, name, comment });
            at = end;
        }
        at += 1;
    }
    blocks
}

/// What the lines before a fence say about it: the file's name, and a comment.
fn before(lines: &[&str]) -> (Option<String>, Option<String>) {
    let comment = lines.last().and_then(|line| line.strip_prefix("<!-- ")?.strip_suffix(" -->"));
    let lines = &lines[..lines.len() - usize::from(comment.is_some())];
    let end = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
    let begin = lines[..end].iter().rposition(|line| line.is_empty()).map_or(0, |empty| empty + 1);
    let paragraph = lines[begin..end].join(" ");
    let name = paragraph.ends_with(':').then(|| named(&paragraph)).flatten();
    (name, comment.map(str::to_string))
}

/// The last word in backticks that is a file: it has a dot or a slash, and nothing strange.
fn named(paragraph: &str) -> Option<String> {
    let words = paragraph.split('`').skip(1).step_by(2);
    let is_file = |word: &&str| {
        let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "./_-".contains(c));
        plain && word.contains(['.', '/']) && !word.starts_with(['.', '/'])
    };
    words.filter(is_file).last().map(str::to_string)
}

/// The pages that a crate includes: as `include_str!("path")`, or by a macro that writes
/// `concat!("folder/", $file)`.
pub(crate) fn included() -> BTreeSet<PathBuf> {
    let mut included = BTreeSet::new();
    for source in files(&root().join("crates"), ".rs") {
        let text = fs::read_to_string(&source).unwrap();
        if !text.contains("include_str!(") {
            continue;
        }
        let folder = source.parent().unwrap();
        let literals: Vec<&str> = text.split('"').skip(1).step_by(2).collect();
        let folders = text.split("concat!(\"").skip(1).filter_map(|rest| rest.split('"').next());
        let prefixes: Vec<&str> = std::iter::once("").chain(folders).collect();
        for literal in literals.iter().filter(|literal| literal.ends_with(".md")) {
            let paths = prefixes.iter().map(|prefix| folder.join(format!("{prefix}{literal}")));
            included.extend(paths.filter_map(|path| path.canonicalize().ok()));
        }
    }
    included
}

/// The text of every file that has a test of this name.
pub(crate) fn tests_named(name: &str) -> Vec<String> {
    let sources = ["crates", "examples"].map(|folder| files(&root().join(folder), ".rs"));
    let texts = sources.iter().flatten().map(|source| fs::read_to_string(source).unwrap());
    texts.filter(|text| text.contains(&format!("fn {name}("))).collect()
}
