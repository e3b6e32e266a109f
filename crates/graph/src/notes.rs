//! What a reader has to say about a template: what is wrong, and what is odd.

use resurgam_core::Code;
use resurgam_core::config::{Problem, nearest};
use serde_json::{Map, Value};

/// Everything found so far, in order.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Problem>,
}

impl Notes {
    pub(crate) fn refuse(
        &mut self,
        code: Code,
        path: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.problems.push(Problem::new(path, message).with_code(code));
    }

    pub(crate) fn warn(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.warnings.push(Problem::new(path, message).with_code(Code::G7));
    }

    /// Keeps what went wrong with a value.
    pub(crate) fn keep<T>(&mut self, code: Code, path: &str, read: Result<T, String>) -> Option<T> {
        read.map_err(|message| self.refuse(code, path, message)).ok()
    }
}

/// A value with the way to it.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) path: &'a str,
    pub(crate) value: &'a Value,
}

impl<'a> At<'a> {
    /// The fields of an object. Fields that nobody knows have no effect, and that is worth a word.
    pub(crate) fn fields(self, known: &[&str], notes: &mut Notes) -> Option<Fields<'a>> {
        let Some(map) = self.value.as_object() else {
            notes.refuse(Code::G1, self.path, "Input should be a valid dictionary");
            return None;
        };
        for key in map.keys().filter(|key| !known.contains(&key.as_str())) {
            let name = crate::reference::shown(key);
            let advice = match nearest(key, known.iter().copied()) {
                Some(near) => format!("; did you mean \"{near}\"?"),
                None => String::new(),
            };
            let path = join(self.path, key);
            notes.warn(path, format!("unknown field \"{name}\" has no effect{advice}"));
        }
        Some(Fields { path: self.path, map })
    }

    /// The entries of a list.
    pub(crate) fn list(self, notes: &mut Notes) -> &'a [Value] {
        self.value.as_array().map_or_else(
            || {
                notes.refuse(Code::G1, self.path, "Input should be a valid list");
                &[][..]
            },
            Vec::as_slice,
        )
    }

    /// A text.
    pub(crate) fn text(self, notes: &mut Notes) -> Option<&'a str> {
        let text = self.value.as_str();
        if text.is_none() {
            notes.refuse(Code::G1, self.path, "Input should be a valid string");
        }
        text
    }

    /// A text without the space around it, of which something must be left.
    pub(crate) fn name(self, empty: &str, notes: &mut Notes) -> Option<String> {
        let name = self.text(notes)?.trim();
        if name.is_empty() {
            notes.refuse(Code::G1, self.path, empty);
            return None;
        }
        Some(name.to_string())
    }
}

/// The fields of an object.
pub(crate) struct Fields<'a> {
    path: &'a str,
    pub(crate) map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// Reads a field that must be there.
    pub(crate) fn require<T>(
        &self,
        name: &str,
        notes: &mut Notes,
        read: impl FnOnce(At<'_>, &mut Notes) -> Option<T>,
    ) -> Option<T> {
        if !self.map.contains_key(name) {
            notes.refuse(Code::G1, join(self.path, name), "Field required");
        }
        self.read(name, notes, read)
    }

    /// Reads a field that may be missing.
    pub(crate) fn read<T>(
        &self,
        name: &str,
        notes: &mut Notes,
        read: impl FnOnce(At<'_>, &mut Notes) -> Option<T>,
    ) -> Option<T> {
        let value = self.map.get(name)?;
        read(At { path: &join(self.path, name), value }, notes)
    }

    /// Reads a field that may be missing, or `null`, which says the same.
    pub(crate) fn read_unless_null<T>(
        &self,
        name: &str,
        notes: &mut Notes,
        read: impl FnOnce(At<'_>, &mut Notes) -> Option<T>,
    ) -> Option<T> {
        if self.map.get(name).is_some_and(Value::is_null) {
            None
        } else {
            self.read(name, notes, read)
        }
    }
}

/// The way to a field.
pub(crate) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_string() } else { format!("{path}.{name}") }
}
