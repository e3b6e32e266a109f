//! Lists, page by page: how long a page is, and where the next one begins.
//!
//! A cursor is a place in a list with the mark of the filter that the list was made with: with
//! another filter it would skip what it should not, and is refused.

use resurgam::Timestamp;
use serde::Serialize;

use crate::problem::Problem;
use crate::wire::Page;

/// How many there are on a page unless somebody says so.
const USUAL: usize = 100;

/// How many there are on a page at most.
const MOST: usize = 500;

/// How long a page is.
pub(super) fn length(limit: Option<usize>) -> Result<usize, Problem> {
    match limit {
        None => Ok(USUAL),
        Some(limit @ 1..=MOST) => Ok(limit),
        Some(limit) => Err(Problem::invalid(format!("limit={limit}: a page has 1 to {MOST}"))),
    }
}

/// A page of what was found, which is one more than the page has room for when there are more.
pub(super) fn page<R, T>(
    mut found: Vec<R>,
    length: usize,
    filter: &impl Serialize,
    place: impl Fn(&R) -> String,
    told: impl Fn(&R) -> T,
) -> Page<T> {
    let is_more = found.len() > length;
    found.truncate(length);
    let last = found.last().filter(|_| is_more);
    let cursor = last.map(|row| cursor(&place(row), filter));
    Page { items: found.iter().map(told).collect(), cursor }
}

/// What names a place in the list of a filter.
pub(super) fn cursor(place: &str, filter: &impl Serialize) -> String {
    format!("{place}~{:08x}", mark(filter))
}

/// The place that a cursor names.
pub(super) fn place<T: std::str::FromStr<Err = String>>(
    cursor: Option<&str>,
    filter: &impl Serialize,
) -> Result<Option<T>, Problem> {
    let Some(cursor) = cursor else { return Ok(None) };
    let wrong = |why: &str| Problem::invalid(format!("cursor={cursor:?}: it {why}"));
    let (place, of) = cursor.rsplit_once('~').ok_or_else(|| wrong("ends no page"))?;
    if of != format!("{:08x}", mark(filter)) {
        return Err(wrong("is of a list with another filter; begin that list anew"));
    }
    place.parse().map(Some).map_err(|why: String| wrong(&why))
}

/// The place that a list begins behind, where somebody names it without a filter.
pub(super) fn behind<T: std::str::FromStr<Err = String>>(
    after: Option<&str>,
) -> Result<Option<T>, Problem> {
    let wrong = |after: &str, why: &str| Problem::invalid(format!("after={after:?}: it {why}"));
    after.map(|after| after.parse().map_err(|why: String| wrong(after, &why))).transpose()
}

/// A number that tells filters apart (FNV-1a). Nothing depends on it but the wish to help.
fn mark(filter: &impl Serialize) -> u32 {
    let text = serde_json::to_string(filter).unwrap_or_default();
    text.bytes().fold(0x811c_9dc5, |mark, byte| (mark ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// A time in a query: milliseconds since 1970, or RFC 3339.
pub(super) fn time(name: &str, text: Option<&str>) -> Result<Option<Timestamp>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let read = match text.parse::<i64>() {
        Ok(ms) => Some(ms),
        Err(_) => text.parse::<jiff::Timestamp>().ok().map(|time| time.as_millisecond()),
    };
    let read = read.map(Timestamp::from_millis).map(Some);
    read.ok_or_else(|| {
        Problem::invalid(format!(
            "{name}={text:?}: write a time as milliseconds since 1970, or as 2026-11-19T03:00:00Z"
        ))
    })
}

#[cfg(test)]
mod tests {
    use resurgam::CallCursor;
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn a_cursor_is_for_the_filter_it_was_made_with() {
        let found = vec!["a", "b", "c"];
        let told = page(found, 2, &"filter", |row| (*row).to_string(), |row| (*row).to_string());
        assert_eq!(told.items, ["a", "b"]);
        let cursor = told.cursor.unwrap();
        assert!(cursor.starts_with("b~"), "{cursor}");
        let other = place::<Text>(Some(&cursor), &"other").unwrap_err();
        assert_eq!(other.status().as_u16(), 422);
        assert_eq!(place::<Text>(Some(&cursor), &"filter").unwrap().unwrap().0, "b");
        assert!(place::<CallCursor>(Some(&cursor), &"filter").is_err());
        assert!(place::<CallCursor>(Some("b"), &"filter").is_err());
    }

    #[derive(Debug)]
    struct Text(String);

    impl std::str::FromStr for Text {
        type Err = String;

        fn from_str(text: &str) -> Result<Self, String> {
            Ok(Text(text.to_string()))
        }
    }

    #[test]
    fn a_page_is_the_last_one_when_nothing_is_left() {
        let told = page(vec![1, 2], 2, &(), |_| String::new(), |row| *row);
        assert_eq!((told.items, told.cursor), (vec![1, 2], None));
    }

    #[test]
    fn a_time_is_given_in_either_form() {
        let read = |text| time("from", Some(text)).ok().flatten().map(Timestamp::as_millis);
        assert_eq!(read("1500"), Some(1_500));
        assert_eq!(read("1970-01-01T00:00:01.5Z"), Some(1_500));
        assert_eq!(read("yesterday"), None);
        assert_eq!(time("from", None).unwrap(), None);
    }
}
