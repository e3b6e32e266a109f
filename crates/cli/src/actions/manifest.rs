//! What an action says about itself, in one JSON object: in a comment of a script, or in a file
//! beside an executable that cannot have comments.
//!
//! ```text
//! #!/usr/bin/env python3
//! # resurgam: {"output": "json"}
//! ```
//!
//! It is read before each attempt, so that an editor changes the next one, and a mistake is told
//! before anything has happened.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use resurgam_core::Failure;
use serde::Deserialize;

use super::lack::is_of_the_node;

/// How much of a script is looked at.
const START: u64 = 4 << 10;

/// What stands in front of the object in a comment.
const MARK: &str = "resurgam:";

/// What an action says about itself.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Manifest {
    pub(super) output: Output,
}

/// What an action prints.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Output {
    /// JSON, or else a text.
    #[default]
    Any,
    /// JSON; anything else is a failure.
    Json,
}

/// Why there is none to go by.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It could not be read.
    Unread(io::Error),
    /// It makes no sense.
    Bad(Failure),
}

impl Manifest {
    /// What an action says: in its file of its own, else in its comments, else nothing.
    pub(super) fn of(action: &Path) -> Result<Self, Trouble> {
        let beside = beside(action);
        match std::fs::read_to_string(&beside) {
            Ok(text) => return read(&text, &beside),
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(Trouble::Unread(error)),
        }
        let start = start_of(action).map_err(Trouble::Unread)?;
        match comment(&start) {
            Some(text) => read(text, action),
            None => Ok(Manifest::default()),
        }
    }
}

/// True when there is no file of this name, or can be none because the name would be too long.
fn is_missing(error: &io::Error) -> bool {
    let too_long = rustix::io::Errno::NAMETOOLONG.raw_os_error();
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(too_long)
}

/// The file of its own: `charge.manifest.json` of `charge`.
fn beside(action: &Path) -> PathBuf {
    let mut name = action.as_os_str().to_os_string();
    name.push(".manifest.json");
    name.into()
}

/// The first lines of a script; nothing of anything else, nor of what we may run and not read. What
/// we cannot read for lack of something may be a promise, and is not taken for none.
fn start_of(action: &Path) -> io::Result<String> {
    let mut start = Vec::new();
    let read = File::open(action).and_then(|file| file.take(START).read_to_end(&mut start));
    match read {
        Err(error) if is_of_the_node(&error) => Err(error),
        _ if start.starts_with(b"#!") => Ok(String::from_utf8_lossy(&start).into_owned()),
        _ => Ok(String::new()),
    }
}

/// The object in a line of its own that is a comment in whatever language.
fn comment(script: &str) -> Option<&str> {
    script.lines().find_map(|line| {
        let line = line.trim_start();
        let text = line.trim_start_matches(['#', '/', '-', ';', '%', ' ', '\t']);
        let is_comment = text.len() < line.len();
        let object = |text: &&str| text.trim_start().starts_with('{');
        text.strip_prefix(MARK).filter(object).filter(|_| is_comment)
    })
}

fn read(text: &str, file: &Path) -> Result<Manifest, Trouble> {
    serde_json::from_str(text.trim()).map_err(|error| {
        let message = format!(
            "{}: {error}; what an action says about itself looks like {{\"output\": \"json\"}}",
            file.display()
        );
        Trouble::Bad(Failure::of_type("BadManifest", message))
    })
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn a_comment_of_a_script_says_what_it_prints() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("charge");
        let said = |text: &str| {
            std::fs::write(&file, text).unwrap();
            Manifest::of(&file).unwrap().output
        };
        for text in [
            "#!/bin/sh\n# resurgam: {\"output\": \"json\"}\ncat\n",
            "#!/usr/bin/env node\r\n\r\n// resurgam: {\"output\":\"json\"}\r\n",
            "#!/usr/bin/env lua\n  --resurgam:{\"output\":\"json\"}",
        ] {
            assert_eq!(said(text), Output::Json, "{text:?}");
        }
        for text in [
            "#!/bin/sh\n# resurgam: {\"output\": \"any\"}\ncat\n",
            "#!/bin/sh\n# resurgam: charges the card of a customer\ncat\n",
            "#!/bin/sh\necho 'resurgam: {}'\nresurgam: {\"output\": \"json\"}\n",
            "\u{7f}ELF\n# resurgam: {\"output\": \"json\"}\n",
            "",
        ] {
            assert_eq!(said(text), Output::Any, "{text:?}");
        }
    }

    #[test]
    fn a_file_beside_an_executable_says_it_too_and_mistakes_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("charge");
        std::fs::write(&file, "\u{7f}ELF").unwrap();
        let manifest = folder.path().join("charge.manifest.json");
        std::fs::write(&manifest, "{\"output\": \"json\"}\n").unwrap();
        assert_eq!(Manifest::of(&file).unwrap().output, Output::Json);
        for (text, expected) in [
            ("{\"ouput\": \"json\"}", "unknown field `ouput`"),
            ("{\"output\": \"xml\"}", "unknown variant `xml`"),
            ("output = json", "expected value"),
        ] {
            std::fs::write(&manifest, text).unwrap();
            let Err(Trouble::Bad(failure)) = Manifest::of(&file) else { panic!("{text}") };
            assert_eq!(failure.type_name.as_deref(), Some("BadManifest"));
            assert!(failure.message.contains("charge.manifest.json: "), "{failure}");
            assert!(failure.message.contains(expected), "{failure}");
        }
    }
}
