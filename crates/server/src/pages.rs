//! The pages of error codes, which answers link to: what a code means, how it comes about, and what
//! to do. They are those that `resurgam explain` prints.

use resurgam::Code;

macro_rules! pages {
    ($($code:literal)*) => {
        &[$(($code, include_str!(concat!("../errors/", $code, ".md"))),)*]
    };
}

const PAGES: &[(&str, &str)] = pages![
    "P1" "P2" "P3" "P4" "I1" "I2" "I3" "I4" "I5" "I6" "G1" "G2" "G3" "G4" "G5" "G6" "G7"
    "B1" "B2" "B3" "B4" "B5" "E1" "E2" "E3" "E4" "E5" "E6" "E7" "E8" "E9" "E10" "E11"
    "D1" "D2" "D3" "D4" "D5" "D6" "D7" "D8" "C1" "C2" "C3" "C4" "C5" "C6"
];

/// The page of a code, as Markdown.
pub(crate) fn page(code: &str) -> Option<&'static str> {
    let is_meant = |(name, _): &&(&str, &str)| name.eq_ignore_ascii_case(code);
    PAGES.iter().find(is_meant).map(|(_, page)| *page)
}

/// What a code means, in a few words.
pub(crate) fn title(code: Code) -> &'static str {
    let heading = page(code.name()).and_then(|page| page.lines().next()).unwrap_or_default();
    heading.split_once(": ").map_or(heading, |(_, title)| title)
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn every_code_has_a_page_with_a_title() {
        for code in Code::ALL {
            assert!(!title(*code).is_empty(), "{code}");
        }
        assert_eq!(title(Code::E2), "there is nothing of this id");
    }
}
