//! Two schedules: a report every night in Berlin, and a poll every second. The program says so at
//! every start, watches two polls, makes up for the reports of last week and looks at what is next.
//!
//! ```sh
//! cargo run -p resurgam-examples --bin cron -- cron.db
//! ```
//!
//! Stop it with Ctrl-C and start it again after a while: what is missed is counted, and nothing is
//! started twice.

use std::time::Duration;

use resurgam::prelude::*;
use resurgam::schedule::{Overlap, Rule};
use resurgam::{ClosedFilter, InstanceFilter, Status, Timestamp};
use tokio::sync::mpsc;

/// Where the activities report to.
struct Seen(mpsc::UnboundedSender<String>);

#[activity]
async fn look(ctx: ActivityContext, source: String) -> Result<u32, Failure> {
    // When the program is about to end, nobody listens any more.
    let _nobody = ctx.state::<Seen>().0.send(source);
    Ok(3)
}

#[workflow]
async fn poll(ctx: WorkflowContext, source: String) -> Result<u32, Failure> {
    ctx.call(look(source)).await
}

#[workflow]
async fn report(ctx: WorkflowContext, title: String) -> Result<String, Failure> {
    ctx.set_status("writing");
    Ok(format!("{title}: nothing happened"))
}

/// From the first of June 2026, midnight in Berlin, for a week.
const WEEK: (Timestamp, Timestamp) =
    (Timestamp::from_millis(1_780_264_800_000), Timestamp::from_millis(1_780_869_599_000));

#[tokio::main]
async fn main() -> resurgam::Result<()> {
    let file = std::env::args().nth(1).unwrap_or_else(|| "cron.db".to_string());
    let (seen, mut polls) = mpsc::unbounded_channel();
    let app = App::builder()
        .workflow(poll)
        .workflow(report)
        .activity(look)
        .state(Seen(seen))
        // What completed is deleted after a month, and what failed after a year.
        .retention(Duration::from_secs(30 * 86_400))
        .retention_of(Status::Failed, Duration::from_secs(365 * 86_400))
        .sqlite(&file)
        .await?;

    // Said at every start: the same again changes nothing.
    app.schedule(
        "nightly",
        Rule::cron("0 3 * * *").in_zone("Europe/Berlin"),
        report("June".into()),
    )
    .catch_up(Duration::from_secs(6 * 3600))
    .retry(RetryPolicy::fixed(Duration::from_secs(600)).max_attempts(3))
    .tag("kind", "report")
    .await?;
    app.schedule("poll", Rule::every(Duration::from_secs(1)), poll("the mailbox".into()))
        .overlap(Overlap::BufferOne)
        .replace()
        .await?;
    app.resume_schedule("poll").await?;

    for _ in 0..2 {
        println!("polled {}", polls.recv().await.unwrap_or_default());
    }
    app.pause_schedule("poll").await?;

    // The nights of a week that nobody was there for. Once more would start nothing.
    let nights = app.backfill("nightly", WEEK.0, WEEK.1).await?;
    println!("{nights} reports are made up for");
    let id = app.run_schedule_now("nightly").await?;
    if let Some(instance) = app.instance::<String>(&id).await? {
        println!("the one of now says {:?}", instance.result().await?);
    }

    for schedule in app.schedules().await? {
        let state = if schedule.paused { "paused" } else { "fires" };
        println!(
            "{}: {state}, {} started, {} missed, {} skipped, {} next times",
            schedule.id,
            schedule.started,
            schedule.missed,
            schedule.skipped,
            schedule.next.len()
        );
    }
    let reports = Some(("kind".to_string(), "report".to_string()));
    for row in app.list(InstanceFilter { tag: reports, ..InstanceFilter::default() }).await? {
        println!("{} {}", row.id, row.status.name());
    }

    // Polls are of no use to anybody later.
    let polls = ClosedFilter { workflow: Some("poll".to_string()), ..ClosedFilter::default() };
    println!("{} polls are deleted", app.delete_closed(polls).await?);
    app.stop().await
}
