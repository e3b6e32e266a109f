//! The JSON forms of what is answered. They are the API's promise; rows of the store are not.
//!
//! Times are milliseconds since 1970 under a name that ends in `_ms`, with the same time in RFC
//! 3339 under the name without it. A payload stands as it is up to 64 KB; a larger one is an object
//! `$payload` with the way to it.

pub(crate) mod call;
pub(crate) mod event;
pub(crate) mod gate;
pub(crate) mod instance;
pub(crate) mod job;
pub(crate) mod schedule;
pub(crate) mod unresolved;

use resurgam::{Payload, Timestamp};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use utoipa::ToSchema;

/// Any JSON.
pub(crate) type Json = Box<RawValue>;

/// The largest payload that stands in an answer about something else.
pub(crate) const INLINE: usize = 64 << 10;

/// A page of a list.
#[derive(Serialize, ToSchema)]
pub(crate) struct Page<T> {
    /// What there is on this page.
    pub(crate) items: Vec<T>,
    /// Where the next page begins; null on the last one.
    pub(crate) cursor: Option<String>,
}

/// A time in RFC 3339. One beyond the calendar is its end.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    let time = jiff::Timestamp::from_millisecond(at.as_millis());
    let end = if at.as_millis() < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
    time.unwrap_or(end).to_string()
}

/// A time in both forms, where there may be none.
pub(crate) fn both(at: Option<Timestamp>) -> (Option<i64>, Option<String>) {
    (at.map(Timestamp::as_millis), at.map(rfc3339))
}

tokio::task_local! {
    /// There while an answer is made for somebody who may not see payloads. All of them pass
    /// through [`value`].
    static HIDES_PAYLOADS: ();
}

/// Makes an answer, for somebody who may not see payloads when `hides` is true.
pub(crate) async fn hiding_payloads<T>(hides: bool, answer: impl Future<Output = T>) -> T {
    match hides {
        true => HIDES_PAYLOADS.scope((), answer).await,
        false => answer.await,
    }
}

/// True while an answer is made for somebody who may not see payloads.
pub(crate) fn hides_payloads() -> bool {
    HIDES_PAYLOADS.try_with(|()| ()).is_ok()
}

/// The value of a payload.
pub(crate) fn value(payload: &Payload) -> Json {
    if hides_payloads() {
        return json(&serde_json::json!({"$payload": {"hidden": true, "bytes": payload.len()}}));
    }
    RawValue::from_string(payload.as_str().to_string()).unwrap_or_else(|_| json(&payload.as_str()))
}

/// A value that is made of nothing that JSON cannot hold.
pub(crate) fn json(value: &impl Serialize) -> Json {
    to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// A payload as it is, or the way to it when it is large.
pub(crate) fn content(text: Json, href: impl FnOnce() -> String) -> Json {
    #[derive(Serialize)]
    struct Large {
        #[serde(rename = "$payload")]
        payload: Way,
    }
    #[derive(Serialize)]
    struct Way {
        href: String,
        bytes: usize,
    }
    let bytes = text.get().len();
    match bytes > INLINE {
        true => json(&Large { payload: Way { href: href(), bytes } }),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn a_time_is_told_in_rfc_3339_up_to_the_end_of_the_calendar() {
        let told = |ms| rfc3339(Timestamp::from_millis(ms));
        assert_eq!(told(0), "1970-01-01T00:00:00Z");
        assert_eq!(told(1_500), "1970-01-01T00:00:01.5Z");
        assert!(told(i64::MAX).starts_with("9999-12-30T22:00:00"), "{}", told(i64::MAX));
        assert!(told(i64::MIN).starts_with("-009999-01-02"), "{}", told(i64::MIN));
    }

    #[test]
    fn a_large_payload_is_replaced_by_the_way_to_it() {
        let large = json(&"x".repeat(INLINE));
        let told = content(large, || "/there".to_string());
        assert_eq!(told.get(), r#"{"$payload":{"href":"/there","bytes":65538}}"#);
        assert_eq!(content(json(&7), || panic!("it is small")).get(), "7");
    }
}
