//! What several files of tests need.

// No file of tests needs all of it.
#![allow(dead_code)]

pub(crate) mod attempts;

/// A long sentence in lines that fit a page, to be compared.
pub(crate) fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    for line in text.lines() {
        let mut width = 0;
        for word in line.split(' ') {
            if width + word.len() > 80 {
                lines.push('\n');
                width = 0;
            } else if width > 0 {
                lines.push(' ');
            }
            lines.push_str(word);
            width += word.len() + 1;
        }
        lines.push('\n');
    }
    lines
}
