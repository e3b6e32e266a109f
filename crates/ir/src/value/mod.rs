//! Values: what JSON has, with Python's rules.
//!
//! Cloning is cheap: lists, dicts and texts are shared. Nothing changes a value that somebody else
//! can see. Every list and dict knows how deep it is nested and about how large it is; what is too
//! much is refused when it is made, so that whatever goes through a value comes to an end.

mod access;
mod arithmetic;
mod compare;
mod json;
mod number;

use std::sync::Arc;

use resurgam_core::Failure;

use crate::hierarchy::ancestors;
pub(crate) use access::Items;

/// How deep lists and dicts may be nested. A reader of JSON gives up soon after.
pub(crate) const DEEPEST: u8 = 100;

/// About how many bytes a value may have, counting shared parts as often as they are written.
const LARGEST: u64 = 64 << 20;

/// A value of a program.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// Nothing, JSON's `null`.
    #[default]
    None,
    /// True or false; a number where one is needed.
    Bool(bool),
    /// A whole number of 64 bits.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text.
    Str(Arc<String>),
    /// A list.
    List(Arc<List>),
    /// A dict whose keys are texts, in the order they were added.
    Dict(Arc<Dict>),
}

/// A list that knows its depth and its size.
#[derive(Clone, Debug, Default)]
pub struct List {
    items: Vec<Value>,
    extent: Extent,
}

/// A dict in the order of its keys' arrival.
#[derive(Clone, Debug, Default)]
pub struct Dict {
    entries: Vec<(Arc<String>, Value)>,
    /// The places of the entries, sorted by key.
    sorted: Vec<u32>,
    extent: Extent,
    /// True for what `except .. as` binds.
    is_exception: bool,
}

/// How deep something is nested and about how large it is.
#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    depth: u8,
    size: u64,
}

impl Extent {
    fn include(&mut self, inner: &Value) {
        let inner = inner.extent();
        self.depth = self.depth.max(inner.depth.saturating_add(1));
        self.size = self.size.saturating_add(inner.size + 8);
    }

    fn check(self) -> Result<(), Failure> {
        if self.depth > DEEPEST {
            let what = format!("a value is nested more than {DEEPEST} levels deep");
            return Err(raised("RecursionError", what));
        }
        if self.size > LARGEST {
            return Err(too_large());
        }
        Ok(())
    }
}

/// A failure as Python would raise it.
pub(crate) fn raised(type_name: &str, message: impl Into<String>) -> Failure {
    let mut failure = Failure::terminal(message).with_type(type_name);
    failure.mro = vec![type_name.to_string()];
    failure.mro.extend(ancestors(type_name).map(str::to_string));
    failure
}

fn too_large() -> Failure {
    raised("MemoryError", format!("a value is larger than {} MiB", LARGEST >> 20))
}

impl Value {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Value::Str(Arc::new(text.into()))
    }

    pub(crate) fn list(items: Vec<Value>) -> Result<Self, Failure> {
        List::new(items).map(|list| Value::List(Arc::new(list)))
    }

    /// A dict; of entries with the same key the last one holds.
    pub(crate) fn dict(entries: Vec<(Arc<String>, Value)>) -> Result<Self, Failure> {
        Dict::new(entries).map(|dict| Value::Dict(Arc::new(dict)))
    }

    fn extent(&self) -> Extent {
        match self {
            Value::None | Value::Bool(_) | Value::Int(_) | Value::Float(_) => {
                Extent { depth: 0, size: 8 }
            }
            Value::Str(text) => Extent { depth: 0, size: text.len() as u64 },
            Value::List(list) => list.extent,
            Value::Dict(dict) => dict.extent,
        }
    }

    /// The name of its type in Python.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Value::None => "NoneType",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Float(_) => "float",
            Value::Str(_) => "str",
            Value::List(_) => "list",
            Value::Dict(dict) if dict.is_exception => "exception",
            Value::Dict(_) => "dict",
        }
    }

    /// What an `if` makes of it.
    pub(crate) fn is_true(&self) -> bool {
        match self {
            Value::None => false,
            Value::Bool(value) => *value,
            Value::Int(value) => *value != 0,
            Value::Float(value) => *value != 0.0,
            Value::Str(text) => !text.is_empty(),
            Value::List(list) => !list.items.is_empty(),
            Value::Dict(dict) => !dict.entries.is_empty(),
        }
    }

    pub(crate) fn is_exception(&self) -> bool {
        matches!(self, Value::Dict(dict) if dict.is_exception)
    }
}

impl List {
    fn new(items: Vec<Value>) -> Result<Self, Failure> {
        let mut extent = Extent { depth: 1, size: 2 };
        items.iter().for_each(|item| extent.include(item));
        extent.check()?;
        Ok(List { items, extent })
    }

    pub(crate) fn items(&self) -> &[Value] {
        &self.items
    }

    /// Adds items without looking at those that are there.
    fn extend(&mut self, items: &[Value]) -> Result<(), Failure> {
        let mut extent = self.extent;
        items.iter().for_each(|item| extent.include(item));
        extent.check()?;
        self.extent = extent;
        self.items.extend_from_slice(items);
        Ok(())
    }
}

impl Dict {
    fn new(entries: Vec<(Arc<String>, Value)>) -> Result<Self, Failure> {
        let mut extent = Extent { depth: 1, size: 2 };
        for (key, value) in &entries {
            extent.include(value);
            extent.size = extent.size.saturating_add(key.len() as u64 + 8);
        }
        extent.check()?;
        let mut dict = Dict { entries, sorted: Vec::new(), extent, is_exception: false };
        dict.sort();
        Ok(dict)
    }

    /// Sorts the places by key. A key that came twice keeps its place and gets its last value.
    fn sort(&mut self) {
        let places = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        let entries = &self.entries;
        let key = |place: &u32| entries[*place as usize].0.as_str();
        let mut sorted: Vec<u32> = (0..places).collect();
        sorted.sort_by(|a, b| key(a).cmp(key(b)));
        if sorted.windows(2).all(|pair| key(&pair[0]) != key(&pair[1])) {
            self.sorted = sorted;
            return;
        }
        let mut gone = vec![false; self.entries.len()];
        for pair in
            sorted.chunk_by(|a, b| key(a) == key(b)).map(<[u32]>::to_vec).collect::<Vec<_>>()
        {
            let last = pair[pair.len() - 1] as usize;
            self.entries[pair[0] as usize].1 = self.entries[last].1.clone();
            pair[1..].iter().for_each(|place| gone[*place as usize] = true);
        }
        let mut place = 0;
        self.entries.retain(|_| {
            place += 1;
            !gone[place - 1]
        });
        self.sort();
    }

    pub(crate) fn entries(&self) -> &[(Arc<String>, Value)] {
        &self.entries
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        let key_of = |place: &u32| self.entries[*place as usize].0.as_str();
        let found = self.sorted.binary_search_by(|place| key_of(place).cmp(key)).ok()?;
        Some(&self.entries[self.sorted[found] as usize].1)
    }

    /// Makes it what `except .. as` binds.
    pub(crate) fn into_exception(mut self) -> Self {
        self.is_exception = true;
        self
    }
}

/// A dict of a few entries that are known to be small.
pub(crate) fn small_dict<const N: usize>(entries: [(&str, Value); N]) -> Result<Dict, Failure> {
    let entry = |(key, value): (&str, Value)| (Arc::new(key.to_string()), value);
    Dict::new(entries.into_iter().map(entry).collect())
}
