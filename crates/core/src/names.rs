//! Lists of names that can be written in a `const`.

use std::fmt;

use serde::{Serialize, Serializer};

/// A list of names (failure types, codes), borrowed from the program or owned by a parsed policy.
///
/// `Cow<'static, [Cow<'static, str>]>` would say the same, but `&["A", "B"]` could not become one
/// inside a `const`.
///
/// ```
/// use resurgam_core::Names;
///
/// const DECLINED: Names = Names::Static(&["CardDeclined", "CardExpired"]);
/// assert!(DECLINED.contains("CardExpired"));
/// assert_eq!(DECLINED, Names::from(vec!["CardDeclined".to_string(), "CardExpired".to_string()]));
/// ```
#[derive(Clone)]
pub enum Names {
    /// Names known when the program was compiled.
    Static(&'static [&'static str]),
    /// Names read at run time.
    Owned(Vec<String>),
}

impl Names {
    /// No names.
    pub const NONE: Names = Names::Static(&[]);

    /// True when there are no names.
    pub const fn is_empty(&self) -> bool {
        match self {
            Names::Static(names) => names.is_empty(),
            Names::Owned(names) => names.is_empty(),
        }
    }

    /// How many names there are.
    pub const fn len(&self) -> usize {
        match self {
            Names::Static(names) => names.len(),
            Names::Owned(names) => names.len(),
        }
    }

    /// The names in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let (fixed, owned): (&[&str], &[String]) = match self {
            Names::Static(names) => (names, &[]),
            Names::Owned(names) => (&[], names),
        };
        fixed.iter().copied().chain(owned.iter().map(String::as_str))
    }

    /// True when `name` is in the list.
    pub fn contains(&self, name: &str) -> bool {
        self.iter().any(|known| known == name)
    }
}

impl Default for Names {
    fn default() -> Self {
        Names::NONE
    }
}

impl From<Vec<String>> for Names {
    fn from(names: Vec<String>) -> Self {
        Names::Owned(names)
    }
}

impl From<&'static [&'static str]> for Names {
    fn from(names: &'static [&'static str]) -> Self {
        Names::Static(names)
    }
}

impl PartialEq for Names {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Names {}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Serialize for Names {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}
