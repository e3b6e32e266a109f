//! How much of a failure is kept.
//!
//! A failure comes from the user's code and can be of any size, and it is written to the ledger,
//! the history and the instance. So everything about it is bounded before it is written: nothing
//! is too large to be stored, or nested too deeply to be read back. What was cut says so.

use serde_json::Value;

use crate::Failure;

/// The longest message, in bytes.
const MESSAGE: usize = 4 << 10;

/// The most bytes of details, of a failure and its causes together.
const DETAILS: usize = 64 << 10;

/// How many levels of lists and objects details may have. A reader gives up at 128 levels, those
/// of the record around them included.
const LEVELS: usize = 64;

/// How many causes are kept.
const CAUSES: usize = 16;

/// How many names of a type hierarchy are kept.
const NAMES: usize = 32;

/// The longest name of a type, and the longest code.
const NAME: usize = 256;

/// What a text ends with that was cut.
const CUT: &str = " [cut]";

impl Failure {
    /// The failure with everything cut that is too long to be kept: messages over 4 KiB, details
    /// over 64 KiB (with those of the causes) or nested more than 64 levels, names over 256 bytes,
    /// causes beyond the sixteenth. A mark in their place tells so.
    ///
    /// ```
    /// use resurgam_core::Failure;
    ///
    /// let failure = Failure::new("no ".repeat(10_000)).bounded();
    /// assert_eq!(failure.message.len(), 4096 + " [cut]".len());
    /// ```
    pub fn bounded(mut self) -> Self {
        let mut details = DETAILS;
        let mut failure = &mut self;
        for _ in 1..CAUSES {
            bound(failure, &mut details);
            match failure.cause {
                Some(ref mut cause) => failure = cause,
                None => return self,
            }
        }
        bound(failure, &mut details);
        failure.cause = failure.cause.take().map(|last| match last.cause {
            Some(_) => rest(last),
            None => {
                let mut last = last;
                bound(&mut last, &mut details);
                last
            }
        });
        self
    }
}

/// Bounds everything but the causes.
fn bound(failure: &mut Failure, details: &mut usize) {
    cut(&mut failure.message, MESSAGE);
    failure.mro.truncate(NAMES);
    let record = &mut **failure;
    let names = record.type_name.iter_mut().chain(&mut record.code).chain(&mut record.mro);
    names.for_each(|name| cut(name, NAME));
    if let Some(value) = &failure.details {
        match kept(value).filter(|size| size <= details) {
            Some(size) => *details -= size,
            None => failure.details = Some(Value::from("[cut: the details are too large]")),
        }
    }
}

/// What stands for the causes that are not kept. They are taken apart one by one: a chain that is
/// long enough would overflow the stack when it is dropped as a whole.
fn rest(mut failure: Failure) -> Failure {
    let mut count = 1;
    while let Some(cause) = failure.cause.take() {
        failure = cause;
        count += 1;
    }
    Failure::new(format!("[cut: {count} more causes]"))
}

/// The size of details in bytes, `None` when they are nested too deeply to be read back.
fn kept(details: &Value) -> Option<usize> {
    is_flatter_than(details, LEVELS).then(|| details.to_string().len())
}

fn is_flatter_than(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(_) | Value::Object(_) if levels == 0 => false,
        Value::Array(list) => list.iter().all(|value| is_flatter_than(value, levels - 1)),
        Value::Object(fields) => fields.values().all(|value| is_flatter_than(value, levels - 1)),
        _ => true,
    }
}

/// Cuts a text that is too long, between two letters. One that was cut before is left as it is:
/// a failure of an activity is often that of its workflow too.
fn cut(text: &mut String, most: usize) {
    let was_cut = text.ends_with(CUT) && text.len() <= most + CUT.len();
    if text.len() > most && !was_cut {
        let end = (0..=most).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
        text.push_str(CUT);
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;
    use serde_json::json;

    fn causes(failure: &Failure) -> Vec<&str> {
        let chain = std::iter::successors(Some(failure), |failure| failure.cause.as_ref());
        chain.map(|failure| &*failure.message).collect()
    }

    #[test]
    fn an_ordinary_failure_is_kept_as_it_is() {
        let failure = Failure::of_type("Busy", "try later")
            .with_code("503")
            .with_details(json!({"host": "a", "tries": [1, 2, {"at": 3}]}))
            .caused_by(Failure::new("refused").caused_by(Failure::new("closed")));
        assert_eq!(failure.clone().bounded(), failure);
    }

    #[test]
    fn texts_are_cut_between_two_letters_with_a_mark() {
        let mut failure = Failure::of_type("ü".repeat(1_000), format!("x{}", "ä".repeat(1 << 20)));
        failure.mro = vec!["Base".repeat(1_000); 1_000];
        let failure = failure.with_code("9".repeat(257)).bounded();
        assert_eq!(failure.message, format!("x{} [cut]", "ä".repeat(2_047)));
        assert_eq!(failure.type_name, Some(format!("{} [cut]", "ü".repeat(128))));
        assert_eq!(failure.code, Some(format!("{} [cut]", "9".repeat(256))));
        assert_eq!((failure.mro.len(), failure.mro[0].len()), (32, 262));
        assert_eq!(failure.clone().bounded(), failure);
    }

    #[test]
    fn a_failure_and_its_causes_share_the_room_for_details() {
        let large = json!("x".repeat(40_000));
        let second = Failure::new("second").with_details(large.clone());
        let third = Failure::new("third").with_details(json!(3));
        let failure = Failure::new("first").with_details(large.clone());
        let failure = failure.caused_by(second.caused_by(third)).bounded();
        let cause = failure.cause.as_ref().unwrap();
        assert_eq!(failure.details, Some(large));
        assert_eq!(cause.details, Some(json!("[cut: the details are too large]")));
        assert_eq!(cause.cause.as_ref().unwrap().details, Some(json!(3)));
    }

    #[test]
    fn what_is_kept_can_be_read_back_however_deep_it_was() {
        let nested = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        for levels in [64, 65, 100] {
            let chain = (0..40).fold(Failure::new("end"), |cause, _| {
                Failure::new("middle").with_details(nested(64)).caused_by(cause)
            });
            let failure = Failure::new("x").with_details(nested(levels)).caused_by(chain).bounded();
            assert_eq!(failure.details == Some(nested(levels)), levels == 64);
            let stored = serde_json::to_string(&failure).unwrap();
            assert_eq!(serde_json::from_str::<Failure>(&stored).unwrap(), failure);
        }
    }

    #[test]
    fn a_long_chain_of_causes_ends_with_how_many_were_cut() {
        let chain = (0..100_000).fold(Failure::new("end"), |cause, n| {
            Failure::new(format!("cause {n}")).caused_by(cause)
        });
        let failure = Failure::new("top").caused_by(chain).bounded();
        let texts = causes(&failure);
        assert_eq!((texts.len(), texts[0], texts[15]), (17, "top", "cause 99985"));
        assert_eq!(texts[16], "[cut: 99986 more causes]");
        assert_eq!(causes(&failure.clone().bounded()), texts);
    }
}
