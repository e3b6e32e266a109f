//! Values as columns hold them.

use std::borrow::Cow;

use resurgam_core::Payload;

pub(crate) use resurgam_store::encode::{
    failure, millis, past_pause, pause, progress, settings, token, whole,
};

/// The mark of a payload with NUL characters, which PostgreSQL refuses in text: a percent sign is
/// written as %25 and a NUL as %00.
pub(crate) const PERCENT: &str = "json%";

/// The mark beside a payload.
pub(crate) fn encoding(payload: &Payload) -> &'static str {
    match payload.as_str().contains('\0') {
        true => PERCENT,
        false => Payload::ENCODING,
    }
}

/// A payload in its encoding.
pub(crate) fn text(payload: &Payload) -> Cow<'_, str> {
    match payload.as_str().contains('\0') {
        true => Cow::Owned(payload.as_str().replace('%', "%25").replace('\0', "%00")),
        false => Cow::Borrowed(payload.as_str()),
    }
}

/// The payload of a text in the encoding [`PERCENT`].
pub(crate) fn from_percent(text: &str) -> Payload {
    Payload::from_text(text.replace("%00", "\0").replace("%25", "%"))
}

/// Text for people. It must never be what keeps a row from being written.
pub(crate) fn prose(text: &str) -> Cow<'_, str> {
    match text.contains('\0') {
        true => Cow::Owned(text.replace('\0', "\u{fffd}")),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn text_with_nul_characters_comes_back_to_the_byte() {
        for original in ["\0", "100 %\0", "%00\0", "%2500\0%25", "a\0b\0"] {
            let payload = Payload::from_text(original);
            assert_eq!(encoding(&payload), PERCENT);
            let stored = text(&payload);
            assert!(!stored.contains('\0'));
            assert_eq!(from_percent(&stored), payload, "{original:?}");
        }
        assert_eq!(text(&Payload::from_text("100 %")), "100 %");
    }
}
