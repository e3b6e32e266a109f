//! Values of users, as text that the engine forwards and never reads.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A value of the user, encoded as JSON. Cloning is cheap.
///
/// ```
/// use resurgam_core::Payload;
///
/// let payload = Payload::encode(&("order-42", 7)).unwrap();
/// assert_eq!(payload.as_str(), r#"["order-42",7]"#);
/// assert_eq!(payload.decode::<(String, u8)>().unwrap(), ("order-42".to_string(), 7));
/// assert_eq!((payload.len(), payload.is_empty()), (14, false));
/// assert_eq!(Payload::null(), Payload::from_text("null"));
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Payload(Arc<str>);

impl Payload {
    /// What stands beside a stored payload, so that compressed or encrypted ones can follow.
    pub const ENCODING: &'static str = "json";

    /// Encodes a value.
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<Self> {
        serde_json::to_string(value).map(Payload::from_text)
    }

    /// A payload of text that already is JSON. Nobody checks it here: stores use it for what they
    /// read back.
    pub fn from_text(text: impl Into<Arc<str>>) -> Self {
        Payload(text.into())
    }

    /// JSON's `null`, the encoding of `()`.
    pub fn null() -> Self {
        Payload::from_text("null")
    }

    /// Decodes the value.
    pub fn decode<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(&self.0)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its size in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when there is no text at all, which no encoder produces.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
