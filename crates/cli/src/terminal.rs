//! Drawing on a terminal: lines that are redrawn in place.

use std::fmt::Write as _;

use anstyle::Style;

/// A part of a line in its colour.
pub(crate) type Part = (Style, String);

/// Lines in place of those drawn before. Each is wiped behind its end and not before it is written,
/// so that nothing flickers.
pub(crate) fn redrawn(before: usize, lines: &[String]) -> String {
    let mut text = String::new();
    if before > 0 {
        let _infallible = write!(text, "\x1b[{before}A\r");
    }
    for line in lines {
        let _infallible = writeln!(text, "{line}\x1b[K");
    }
    text + "\x1b[J"
}

/// Columns and lines of a terminal.
#[cfg(unix)]
pub(crate) fn size(terminal: impl std::os::fd::AsFd) -> (usize, usize) {
    if let Ok(size) = rustix::termios::tcgetwinsize(terminal)
        && size.ws_col > 0
        && size.ws_row > 0
    {
        return (size.ws_col.into(), size.ws_row.into());
    }
    (80, 24)
}

/// Columns and lines of a terminal: nobody says.
#[cfg(not(unix))]
pub(crate) fn size<T>(_terminal: T) -> (usize, usize) {
    (80, 24)
}

/// A line that fits the terminal: one that wraps could not be redrawn.
pub(crate) fn painted(parts: &[Part], width: usize) -> String {
    let mut left = width.saturating_sub(1);
    let mut text = String::new();
    for (style, part) in parts {
        let cut: String = part.chars().filter(|c| !c.is_control()).take(left).collect();
        left -= cut.chars().count();
        let _infallible = write!(text, "{style}{cut}{style:#}");
    }
    text
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn what_is_redrawn_covers_what_was_drawn() {
        assert_eq!(redrawn(0, &["a".to_string()]), "a\x1b[K\n\x1b[J");
        assert_eq!(redrawn(1, &[]), "\x1b[1A\r\x1b[J");
    }
}
