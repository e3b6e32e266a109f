//! Values as columns hold them.

use resurgam_core::Payload;

pub(crate) use resurgam_store::encode::{
    failure, millis, past_pause, pause, progress, settings, token, whole,
};

/// The mark beside a payload, absent when the payload is.
pub(crate) fn encoding(payload: Option<&Payload>) -> Option<&'static str> {
    payload.map(|_| Payload::ENCODING)
}
