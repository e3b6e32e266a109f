//! What `#[activity]` writes, used as people use it.

#![allow(clippy::unwrap_used, clippy::result_large_err)]

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use resurgam::{
    Activity, ActivityContext, ActivityDefinition, ActivityOptions, Attempt, AttemptHost,
    Constructor, HostFuture, Registry, States, Terminal,
};
use resurgam_core::retry::RetryPolicy;
use resurgam_core::{Failure, Payload, RunKey, Seq, Uid};
use resurgam_macros::activity;
use resurgam_watchdog::test;
use serde::{Deserialize, Serialize};

const PAYMENT: RetryPolicy =
    RetryPolicy::exponential(Duration::from_millis(200)).max_attempts(8).never_for(&["Declined"]);

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Receipt {
    order_id: String,
    key: String,
}

/// Charges a card.
#[activity(retry = PAYMENT, timeout = Duration::from_secs(10))]
#[derive(Debug, Clone, PartialEq)]
async fn charge(ctx: ActivityContext, order_id: String, cents: u64) -> Result<Receipt, Failure> {
    let limit = ctx.state::<Limit>();
    if cents > limit.0 {
        return Err(Failure::of_type("Declined", format!("{cents} cents are too many")));
    }
    Ok(Receipt { order_id, key: ctx.idempotency_key() })
}

struct Limit(u64);

#[test]
fn a_call_is_a_value_that_is_built_by_name_or_by_fields() {
    let built = charge("order-42".to_string(), 4200);
    let spelled_out = charge { order_id: "order-42".to_string(), cents: 4200 };
    assert_eq!(built, spelled_out);
    let charge { order_id, cents } = built.clone();
    assert_eq!((order_id.as_str(), cents), ("order-42", 4200));
    assert_eq!(format!("{built:?}"), r#"charge { order_id: "order-42", cents: 4200 }"#);
}

#[test]
fn the_arguments_travel_by_name_in_their_order() {
    let text = serde_json::to_string(&charge("order-42".to_string(), 4200)).unwrap();
    assert_eq!(text, r#"{"order_id":"order-42","cents":4200}"#);
    let newer = r#"{"cents":1,"colour":"blue","order_id":"o"}"#;
    assert_eq!(serde_json::from_str::<charge>(newer).unwrap(), charge("o".to_string(), 1));
}

#[test]
fn an_attempt_runs_the_body_with_the_context_and_the_arguments() {
    let receipt = attempt(charge("order-42".to_string(), 99)).unwrap();
    assert_eq!(receipt.order_id, "order-42");
    assert_eq!(receipt.key, "00000000000000000000000000000007/1/2");
    let declined = attempt(charge("order-42".to_string(), 101)).unwrap_err();
    assert_eq!(declined.to_string(), "Declined: 101 cents are too many");
}

#[activity]
async fn ping() -> Result<(), Failure> {
    Ok(())
}

#[activity(
    name = "billing.refund",
    alias = "refund",
    alias = ["pay_back", "reimburse"],
    retry = PAYMENT.max_attempts(3),
    timeout = SHORT,
    total_timeout = SHORT * 10,
    queue_timeout = Duration::from_secs(2),
    heartbeat_timeout = Duration::from_secs(3),
    queue = format!("billing-{}", 7),
    max_concurrent = 4
)]
async fn refund(key: String) -> Result<String, Failure> {
    Ok(key)
}

const SHORT: Duration = Duration::from_secs(1);

#[test]
fn names_aliases_and_options_are_those_of_the_brackets() {
    assert_eq!((ping::NAME, ping::ALIASES, ping::options()), ("ping", &[][..], Default::default()));
    assert_eq!(refund::NAME, "billing.refund");
    assert_eq!(refund::ALIASES, ["refund", "pay_back", "reimburse"]);
    let options = ActivityOptions {
        retry: Some(PAYMENT.max_attempts(3)),
        queue: Some("billing-7".to_string()),
        timeout: Some(SHORT),
        total_timeout: Some(SHORT * 10),
        queue_timeout: Some(Duration::from_secs(2)),
        heartbeat_timeout: Some(Duration::from_secs(3)),
        max_concurrent: Some(4),
        gate: None,
    };
    assert_eq!(refund::options(), options);
    assert_eq!((ping::GATE, fetch::GATE), (None, Some("host:{url.host}")));
}

#[activity(gate = "host:{url.host}")]
async fn fetch(url: String) -> Result<String, Failure> {
    Ok(url)
}

#[test]
fn no_arguments_are_an_empty_object() {
    assert_eq!(serde_json::to_string(&ping()).unwrap(), "{}");
    attempt(ping()).unwrap();
}

#[activity]
fn checksum(mut text: String, _unused: u8) -> Result<usize, Failure> {
    text.push('!');
    Ok(text.len())
}

#[test]
fn a_plain_function_is_marked_as_blocking() {
    let blocking = [checksum::BLOCKING, charge::BLOCKING];
    assert_eq!(blocking, [true, false]);
    assert_eq!(attempt(checksum("abc".to_string(), 0)).unwrap(), 4);
    assert_eq!(serde_json::to_value(checksum(String::new(), 1)).unwrap()["_unused"], 1);
}

/// A call by hand, among those of the macro.
#[derive(Serialize, Deserialize)]
struct Notify {
    whom: String,
}

impl Activity for Notify {
    const NAME: &'static str = "notify";
    type Output = String;

    async fn run(self, ctx: ActivityContext) -> Result<String, Failure> {
        Ok(format!("{} told at attempt {}", self.whom, ctx.attempt()))
    }
}

fn notify(whom: String) -> Notify {
    Notify { whom }
}

fn register<Args, F>(registry: &mut Registry, _name: F)
where
    F: Constructor<Args>,
    F::Built: Activity,
{
    registry.add_activity::<F::Built>().unwrap();
}

#[test]
fn the_name_alone_registers_an_activity_also_one_by_hand() {
    let mut registry = Registry::default();
    register(&mut registry, charge);
    register(&mut registry, ping);
    register(&mut registry, refund);
    register(&mut registry, notify);
    for name in ["charge", "ping", "billing.refund", "pay_back", "notify"] {
        assert!(registry.activity(name).is_some(), "{name}");
    }
    let notify = registry.activity("notify").unwrap();
    let told = ready(notify.run(context(), Payload::from_text(r#"{"whom":"Ada"}"#))).unwrap();
    assert_eq!(told.as_str(), r#""Ada told at attempt 3""#);
}

#[derive(Debug)]
enum GatewayError {
    Number(std::num::ParseIntError),
    Closed,
}

impl fmt::Display for GatewayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GatewayError::Number(error) => write!(f, "gateway: {error}"),
            GatewayError::Closed => f.write_str("gateway: closed"),
        }
    }
}

impl std::error::Error for GatewayError {}

impl From<std::num::ParseIntError> for GatewayError {
    fn from(error: std::num::ParseIntError) -> Self {
        GatewayError::Number(error)
    }
}

#[activity]
async fn parse(text: String) -> Result<u64, GatewayError> {
    if text.is_empty() {
        return Err(GatewayError::Closed);
    }
    Ok(text.parse()?)
}

/// Not an error of the standard library's kind; it says itself what failure it is.
struct Busy;

impl From<Busy> for Failure {
    fn from(_: Busy) -> Self {
        Failure::retry_after(Duration::from_secs(5), "busy")
    }
}

type Outcome = Result<u8, Busy>;

#[activity]
async fn reserve() -> Outcome {
    Err(Busy)
}

#[activity]
async fn read(text: String) -> std::io::Result<String> {
    match text.as_str() {
        "" => Err(std::io::Error::other("nothing there")),
        _ => Ok(text),
    }
}

#[activity]
async fn never_again(text: String) -> Result<u64, Failure> {
    let number: u64 = text.parse().terminal()?;
    Ok(number)
}

#[test]
fn the_error_may_be_of_any_type_that_can_become_a_failure() {
    assert_eq!(attempt(parse("7".to_string())).unwrap(), 7);
    let failure = attempt(parse("seven".to_string())).unwrap_err();
    assert_eq!(failure.type_name.as_deref(), Some("GatewayError"));
    assert_eq!(attempt(parse(String::new())).unwrap_err().message, "gateway: closed");
    assert_eq!(attempt(reserve()).unwrap_err().retry_after, Some(Duration::from_secs(5)));
    assert_eq!(attempt(read(String::new())).unwrap_err().message, "nothing there");
    assert!(attempt(never_again("x".to_string())).unwrap_err().is_terminal());
}

mod shop {
    use super::*;

    pub(crate) mod cards {
        use super::*;

        /// Only this module knows it.
        #[derive(Debug)]
        struct Secret;

        impl fmt::Display for Secret {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("secret")
            }
        }

        impl std::error::Error for Secret {}

        #[activity(name = "shop.block")]
        pub(crate) async fn block(card: String) -> Result<String, Secret> {
            if card.is_empty() { Err(Secret) } else { Ok(card) }
        }
    }
}

#[test]
fn visibility_is_that_of_the_function() {
    use shop::cards::block;
    let call = block { card: "1234".to_string() };
    assert_eq!((call.card.as_str(), block::NAME), ("1234", "shop.block"));
    assert_eq!(attempt(block("1234".to_string())).unwrap(), "1234");
}

#[activity]
#[serde(rename_all = "camelCase")]
async fn send(
    /// Who gets it.
    to_address: String,
    #[serde(default)] retries_left: u8,
    r#type: Option<String>,
    #[cfg(any())] never: u8,
) -> Result<String, Failure> {
    Ok(format!("{to_address} {retries_left} {type:?}", r#type = r#type))
}

#[test]
fn serde_attributes_shape_the_call_on_the_wire() {
    let call = send("a@b.c".to_string(), 2, Some("text".to_string()));
    let text = serde_json::to_string(&call).unwrap();
    assert_eq!(text, r#"{"toAddress":"a@b.c","retriesLeft":2,"type":"text"}"#);
    let older: send = serde_json::from_str(r#"{"toAddress":"a@b.c"}"#).unwrap();
    assert_eq!(attempt(older).unwrap(), "a@b.c 0 None");
}

#[activity]
#[allow(unused_variables)]
#[deprecated = "use charge"]
#[must_use]
async fn old_charge(cents: u64) -> Result<(), Failure> {
    Ok(())
}

#[activity(crate = ::resurgam)]
async fn elsewhere(ctx: String) -> Result<String, Failure> {
    // Only the type makes a context; this is an argument.
    Ok(ctx)
}

// Names that the trait also has.
#[activity]
async fn run(options: u8) -> Result<u8, Failure> {
    Ok(options)
}

#[test]
fn odd_names_do_not_collide() {
    #[expect(deprecated)]
    attempt(old_charge(1)).unwrap();
    assert_eq!(attempt(elsewhere("x".to_string())).unwrap(), "x");
    assert_eq!(attempt(run(3)).unwrap(), 3);

    #[activity]
    async fn within_a_function(within_a_function: u8) -> Result<u8, Failure> {
        Ok(within_a_function)
    }
    assert_eq!(attempt(within_a_function(3)).unwrap(), 3);
}

/// Makes one attempt the way a worker does: through the wire.
fn attempt<A: Activity>(call: A) -> Result<A::Output, Failure> {
    let input = Payload::encode(&call).unwrap();
    let output = ready(ActivityDefinition::of::<A>().run(context(), input))?;
    Ok(output.decode().unwrap())
}

fn context() -> ActivityContext {
    let mut states = States::default();
    states.insert(Limit(100));
    ActivityContext::new(Attempt {
        call: RunKey::first(Uid(7)).call(Seq(2)),
        instance: "order-42".to_string(),
        activity: "charge".to_string(),
        number: 3,
        deadline: None,
        states,
        last_heartbeat: None,
        fallback_of: None,
        host: Arc::new(Nowhere),
    })
}

/// The result of a future that waits for nothing.
fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits for something"),
    }
}

/// A host without a worker: nobody cancels, no time passes.
struct Nowhere;

impl AttemptHost for Nowhere {
    fn cancelled(&self) -> HostFuture<'_> {
        Box::pin(std::future::pending())
    }

    fn is_cancelled(&self) -> bool {
        false
    }

    fn sleep(&self, _time: Duration) -> HostFuture<'_> {
        Box::pin(std::future::ready(()))
    }

    fn heartbeat(&self, _details: Option<resurgam_core::Payload>) -> Result<(), Failure> {
        Ok(())
    }
}
