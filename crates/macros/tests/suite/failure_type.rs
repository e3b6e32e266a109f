//! What `#[derive(FailureType)]` writes, used as people use it.

use std::fmt;
use std::num::ParseIntError;
use std::time::Duration;

use resurgam_core::{Failure, FailureType as _, Kind};
use resurgam_macros::FailureType;
use resurgam_watchdog::test;
use serde::{Deserialize, Serialize};

/// An error that is displayed as its debug form.
macro_rules! errors {
    ($($name:ident)*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self:?}")
            }
        }

        impl std::error::Error for $name {}
    )*};
}

errors!(OutOfStock Unlucky Http);

#[derive(Debug, PartialEq, Serialize, Deserialize, FailureType)]
#[failure(parent = ["WarehouseError", "Error"], code = format!("stock-{}", _1))]
struct OutOfStock(String, u32);

#[derive(Debug, PartialEq, Serialize, Deserialize, FailureType)]
#[failure(name = "bad_luck", alias = "misfortune", terminal)]
struct Unlucky;

#[derive(Debug, PartialEq, Serialize, Deserialize, FailureType)]
#[failure(retryable, code = status, retry_after = wait_ms.map(Duration::from_millis))]
struct Http {
    status: u16,
    wait_ms: Option<u64>,
}

#[test]
fn a_struct_is_one_type_of_failures() {
    let failure = OutOfStock("lamp".to_string(), 3).to_failure();
    assert_eq!(failure.type_name.as_deref(), Some("OutOfStock"));
    assert_eq!(failure.mro, ["OutOfStock", "WarehouseError", "Error"]);
    assert_eq!(failure.code.as_deref(), Some("stock-3"));
    assert_eq!((failure.retryable, failure.kind), (None, Kind::Error));
    assert_eq!(failure.details, Some(serde_json::json!(["lamp", 3])));
    assert_eq!(failure.as_error(), Some(OutOfStock("lamp".to_string(), 3)));
    assert!(failure.has_type("WarehouseError", true));
}

#[test]
fn names_and_what_is_said_about_retrying_are_those_of_the_attributes() {
    let failure = Unlucky.to_failure();
    assert_eq!((failure.type_name.as_deref(), failure.mro.len()), (Some("bad_luck"), 0));
    assert!(failure.is_terminal());
    let busy = Http { status: 429, wait_ms: Some(1_500) }.to_failure();
    assert_eq!((busy.code.as_deref(), busy.retryable), (Some("429"), Some(true)));
    assert_eq!(
        (busy.kind, busy.retry_after),
        (Kind::Throttled, Some(Duration::from_millis(1_500)))
    );
    let down = Http { status: 503, wait_ms: None }.to_failure();
    assert_eq!((down.kind, down.retry_after), (Kind::Error, None));
}

#[test]
fn what_was_recorded_under_an_earlier_name_is_still_read() {
    let mut old = Unlucky.to_failure();
    old.type_name = Some("misfortune".to_string());
    assert_eq!(old.as_error(), Some(Unlucky));
}

#[derive(Debug, Serialize, Deserialize, FailureType)]
#[failure(name = "payment", parent = "business", terminal, code = "P0")]
enum PaymentError {
    #[failure(code = 402)]
    Declined {
        reason: String,
    },
    #[failure(name = "busy", retryable, retry_after = *wait, parent = "throttling")]
    Busy {
        wait: Duration,
    },
    Unreachable,
    #[failure(code = _0.len())]
    Unreadable(String, #[serde(skip)] Option<ParseIntError>),
}

impl fmt::Display for PaymentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no payment")
    }
}

impl std::error::Error for PaymentError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PaymentError::Unreadable(_, Some(source)) => Some(source),
            _ => None,
        }
    }
}

#[test]
fn each_variant_is_a_type_that_descends_from_the_enum() {
    let declined = PaymentError::Declined { reason: "no funds".to_string() }.to_failure();
    assert_eq!(declined.type_name.as_deref(), Some("Declined"));
    assert_eq!(declined.mro, ["Declined", "payment", "business"]);
    assert_eq!((declined.code.as_deref(), declined.retryable), (Some("402"), Some(false)));
    let busy = PaymentError::Busy { wait: Duration::from_secs(3) }.to_failure();
    assert_eq!(busy.mro, ["busy", "throttling", "payment", "business"]);
    assert_eq!((busy.code.as_deref(), busy.retryable), (Some("P0"), Some(true)));
    assert_eq!(busy.retry_after, Some(Duration::from_secs(3)));
    let Some(PaymentError::Busy { wait }) = busy.as_error() else { panic!("{busy:?}") };
    assert_eq!(wait, Duration::from_secs(3));
    let source = "x".parse::<u8>().unwrap_err();
    let unreadable = PaymentError::Unreadable("eins".to_string(), Some(source)).to_failure();
    assert_eq!(unreadable.code.as_deref(), Some("4"));
    assert_eq!(unreadable.cause.as_ref().unwrap().message, "invalid digit found in string");
    assert!(
        matches!(unreadable.as_error(), Some(PaymentError::Unreadable(text, None)) if text == "eins")
    );
}

#[test]
fn a_failure_of_another_type_or_another_shape_is_not_turned_back() {
    // The same name in another family, another type, no details, details that do not fit.
    let mut other = PaymentError::Unreachable.to_failure();
    other.mro = vec!["Unreachable".to_string(), "NetworkError".to_string()];
    assert!(!other.is::<PaymentError>() && other.as_error::<PaymentError>().is_none());
    assert!(Unlucky.to_failure().as_error::<OutOfStock>().is_none());
    let by_hand = Failure::of_type("OutOfStock", "made by hand");
    assert!(by_hand.is::<OutOfStock>() && by_hand.as_error::<OutOfStock>().is_none());
    let newer = OutOfStock(String::new(), 1).to_failure().with_details(serde_json::json!({}));
    assert_eq!(newer.clone().downcast::<OutOfStock>(), Err(newer));
}

#[derive(Debug, Serialize, Deserialize, FailureType)]
enum Never {}

errors!(Never);

#[test]
fn a_type_without_values_is_never_met() {
    assert!(Unlucky.to_failure().as_error::<Never>().is_none());
}
