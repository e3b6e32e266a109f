//! Text from outside, for a terminal or a line of a log.

/// Text without control characters, each character still one character wide.
///
/// ```
/// assert_eq!(resurgam_policy::printable("a\tb\u{1b}"), "a b\u{fffd}");
/// ```
pub fn printable(text: &str) -> String {
    let shown = |c: char| match c {
        '\t' | '\n' => ' ',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    text.chars().map(shown).collect()
}
