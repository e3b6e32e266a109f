//! What an id, a key or a name that people give may be, alike on every store.
//!
//! Checked where it is given, so that whoever gave it hears of it: a database refuses a NUL, or an
//! entry that is too long for its index, when much else depends on the same step.

/// The most bytes of an id, a key or a name.
pub const MAX_BYTES: usize = 1_024;

/// The error says why an id, a key or a name cannot be used, and begins with what it is.
///
/// ```
/// use resurgam_core::identifier;
///
/// assert!(identifier::check("the id", "order-42/ü").is_ok());
/// assert_eq!(
///     identifier::check("the id", "order\0").unwrap_err(),
///     r#"the id "order\0" holds a NUL character; leave it out"#
/// );
/// let long = identifier::check("the queue", &"x".repeat(1_025)).unwrap_err();
/// assert!(long.ends_with("has 1025 bytes, 1024 are allowed"), "{long}");
/// ```
pub fn check(what: &str, text: &str) -> Result<(), String> {
    if text.len() > MAX_BYTES {
        let (shown, size) = (start_of(text), text.len());
        return Err(format!("{what} {shown:?}... has {size} bytes, {MAX_BYTES} are allowed"));
    }
    match text.contains('\0') {
        true => Err(format!("{what} {text:?} holds a NUL character; leave it out")),
        false => Ok(()),
    }
}

/// As much as tells people which one it is.
fn start_of(text: &str) -> &str {
    let end = text.char_indices().nth(40).map_or(text.len(), |(end, _)| end);
    &text[..end]
}
