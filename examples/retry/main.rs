//! A tour of retrying: eight activities that fail, each with another policy, and what becomes of
//! them. All delays are milliseconds, so the whole tour takes about a second.
//!
//! ```sh
//! cargo run -p resurgam-examples --bin retry -- retry.db
//! ```

use std::time::Duration;

use resurgam::prelude::*;
use resurgam::retry::{Backoff, Jitter, Match, Rule};
use resurgam::{Activity, Instance, Kind};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The same delay each time.
#[activity(retry = RetryPolicy::fixed(ms(20)).jitter(Jitter::None))]
async fn fixed(ctx: ActivityContext) -> Result<String, Failure> {
    succeed_on(&ctx, 3)
}

/// Delays that double up to a limit, each spread from zero to the delay so that callers that failed
/// together do not come back together.
#[activity(retry = RetryPolicy::exponential(ms(10)).max_delay(ms(50)).jitter(Jitter::Full))]
async fn exponential(ctx: ActivityContext) -> Result<String, Failure> {
    succeed_on(&ctx, 5)
}

/// A policy that gives up: three attempts, the first included.
#[activity(retry = RetryPolicy::fixed(ms(10)).max_attempts(3))]
async fn exhausted(ctx: ActivityContext) -> Result<String, Failure> {
    succeed_on(&ctx, 4)
}

/// What is worth trying again depends on what went wrong. The first rule that matches holds; what
/// it leaves out, the policy says.
const RULES: &[Rule] = &[
    Rule::retry(Match::codes(&["429"])).backoff(Backoff::Fixed { delay: ms(40) }).max_attempts(20),
    Rule::retry(Match::kinds(&[Kind::Timeout])).max_attempts(2),
    Rule::fail(Match::types(&["InvalidRequest"])),
];

#[activity(retry = RetryPolicy::exponential(ms(10)).jitter(Jitter::None).rules(RULES))]
async fn rules(ctx: ActivityContext) -> Result<String, Failure> {
    match ctx.attempt() {
        1 => Err(Failure::new("connection reset")),
        2 => Err(Failure::new("too many requests").with_code("429")),
        _ => Err(Failure::of_type("InvalidRequest", "no such field: colour")),
    }
}

/// The other side says when to come back (`Retry-After`). It is followed, plus a tenth: everybody
/// got the same answer.
#[activity(retry = RetryPolicy::fixed(ms(10)))]
async fn server_delay(ctx: ActivityContext) -> Result<String, Failure> {
    match ctx.attempt() {
        1 => Err(Failure::retry_after(ms(100), "busy, come back later")),
        _ => Ok("served".to_string()),
    }
}

/// Not ready yet is not a failure: a snooze is not counted, so even a single attempt is enough.
#[activity(retry = RetryPolicy::once())]
async fn snooze(ctx: ActivityContext) -> Result<String, Failure> {
    match ctx.attempt() {
        1..=3 => Err(Failure::snooze(ms(30))),
        _ => Ok("the report is ready".to_string()),
    }
}

/// An attempt that hangs is given up after its timeout, and tried again like any failure.
#[activity(retry = RetryPolicy::fixed(ms(10)), timeout = ms(50))]
async fn timeout(ctx: ActivityContext) -> Result<String, Failure> {
    if ctx.attempt() == 1 {
        // It hears of being given up, and could clean up behind itself here.
        ctx.cancelled().await;
    }
    Ok("quick this time".to_string())
}

/// Some errors are final, whatever the policy says.
#[activity]
async fn terminal() -> Result<String, Failure> {
    let port: u16 = "eighty".parse().terminal()?;
    Ok(format!("listening on port {port}"))
}

fn succeed_on(ctx: &ActivityContext, attempt: u32) -> Result<String, Failure> {
    match ctx.attempt() >= attempt {
        true => Ok(format!("attempt {attempt} was lucky")),
        false => Err(Failure::new("bad luck")),
    }
}

#[tokio::main]
async fn main() -> resurgam::Result<()> {
    let file = std::env::args().nth(1).unwrap_or_else(|| "retry.db".to_string());
    let app = App::builder()
        .activity(fixed)
        .activity(exponential)
        .activity(exhausted)
        .activity(rules)
        .activity(server_delay)
        .activity(snooze)
        .activity(timeout)
        .activity(terminal)
        .sqlite(&file)
        .await?;

    // An activity needs no workflow around it. All of them wait for their delays at the same time.
    submit(&app, fixed()).await?;
    submit(&app, exponential()).await?;
    submit(&app, exhausted()).await?;
    submit(&app, rules()).await?;
    submit(&app, server_delay()).await?;
    submit(&app, snooze()).await?;
    submit(&app, timeout()).await?;
    submit(&app, terminal()).await?;

    for id in [
        "fixed",
        "exponential",
        "exhausted",
        "rules",
        "server_delay",
        "snooze",
        "timeout",
        "terminal",
    ] {
        show(&app, id).await?;
    }
    app.stop().await
}

/// Begins a stop of the tour, under the activity's name as id. A tour that is over is begun anew,
/// one that was interrupted goes on.
async fn submit<A: Activity>(app: &App, activity: A) -> resurgam::Result<()> {
    match app.submit(A::NAME, activity).replace_closed().await {
        Err(error) if !error.is_already_exists() => Err(error),
        Err(_) => {
            println!("{} was interrupted and goes on", A::NAME);
            Ok(())
        }
        Ok(_) => Ok(()),
    }
}

/// Waits for the end and prints the history. Below it, for each attempt, how it was decided what
/// follows.
async fn show(app: &App, id: &str) -> resurgam::Result<()> {
    let Some(instance): Option<Instance<String>> = app.instance(id).await? else { return Ok(()) };
    instance.outcome().await?;
    print!("== {id}\n{}", instance.history().await?);
    for attempt in app.attempts(id).await? {
        println!("  why, after attempt {}: {}", attempt.attempt, attempt.why);
    }
    println!();
    Ok(())
}
