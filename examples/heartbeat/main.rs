//! An import that goes on where it was: each attempt says how far it has come, and the next one
//! begins there, also when the process died in between.
//!
//! ```sh
//! cargo run -p resurgam-examples --bin heartbeat -- import.db
//! ```
//!
//! The connection breaks after every third row. Kill the program and start it again: the rows that
//! were reported are not imported again.

use std::time::Duration;

use resurgam::prelude::*;
use serde::{Deserialize, Serialize};

/// Where an attempt is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Progress {
    rows: u32,
    /// The sum so far, so that the next attempt does not have to read the rows again.
    cents: u64,
}

#[workflow]
async fn import(ctx: WorkflowContext, rows: u32) -> Result<u64, Failure> {
    ctx.call(import_rows(rows)).await
}

/// An attempt that is silent for ten seconds is taken for dead, however long the whole may take.
#[activity(
    heartbeat_timeout = Duration::from_secs(10),
    retry = RetryPolicy::fixed(Duration::from_millis(50))
)]
async fn import_rows(ctx: ActivityContext, rows: u32) -> Result<u64, Failure> {
    let mut done: Progress = ctx.last_heartbeat().unwrap_or_default();
    let first = done.rows;
    println!("attempt {} begins with row {}", ctx.attempt(), first + 1);
    while done.rows < rows {
        if done.rows == first + 3 {
            return Err(Failure::of_type("ConnectionLost", format!("after row {}", done.rows)));
        }
        ctx.sleep(Duration::from_millis(10)).await; // the work
        done = Progress { rows: done.rows + 1, cents: done.cents + u64::from(done.rows) };
        // Cheap: most of them stay in memory, and the last one is written with how the attempt
        // ends. An error says that nobody wants the result any more.
        ctx.heartbeat(&done)?;
    }
    Ok(done.cents)
}

#[tokio::main]
async fn main() -> resurgam::Result<()> {
    let file = std::env::args().nth(1).unwrap_or_else(|| "import.db".to_string());
    let app = App::builder().workflow(import).activity(import_rows).sqlite(&file).await?;
    match app.start("import-1", import(10)).await {
        Err(error) if !error.is_already_exists() => return Err(error),
        _ => {}
    }
    if let Some(run) = app.instance::<u64>("import-1").await? {
        println!("10 rows are imported, {} cents\n", run.result().await?);
        println!("{}", run.history().await?);
    }
    app.stop().await
}

#[cfg(test)]
mod tests {
    //! In virtual time.
    #![allow(clippy::unwrap_used)]

    use resurgam_testing::{TestApp, never};

    use super::*;

    #[tokio::test]
    async fn each_attempt_goes_on_where_the_one_before_was() {
        let app = TestApp::builder().workflow(import).activity(import_rows).start().await;
        let run = app.start("import-1", import(10)).await;
        assert_eq!(run.result().await.unwrap(), 45);
        // Three rows each, and the last one.
        assert_eq!(app.attempts(import_rows), 4);
    }

    #[tokio::test]
    async fn an_attempt_in_another_process_goes_on_where_a_dead_one_was() {
        let app = TestApp::builder().workflow(import).activity(import_rows).start().await;
        let run = app.start("import-1", import(10)).await;
        app.advance(Duration::from_millis(15)).await;
        app.restart().await;
        // The first report is on the disk at once: one row is done, and never done again.
        assert_eq!(run.result().await.unwrap(), 45);
        let history = run.history().await;
        assert!(history.contains("attempt 1 lost"), "{history}");
        assert_eq!(app.attempts(import_rows), 4, "{history}");
    }

    #[tokio::test]
    async fn an_attempt_that_is_silent_is_taken_for_dead() {
        /// Under the name of the real one.
        #[activity(
            name = "import_rows",
            heartbeat_timeout = Duration::from_secs(10),
            retry = RetryPolicy::fixed(Duration::from_secs(1))
        )]
        async fn silent_once(ctx: ActivityContext, rows: u32) -> Result<u64, Failure> {
            if ctx.attempt() == 1 {
                ctx.heartbeat(&Progress { rows: 7, cents: 21 })?;
                never(&ctx).await;
            }
            let before: Progress = ctx.last_heartbeat().unwrap_or_default();
            Ok(before.cents + u64::from(rows))
        }
        let app = TestApp::builder().workflow(import).activity(silent_once).start().await;
        let run = app.start("import-1", import(10)).await;
        assert_eq!(run.result().await.unwrap(), 31);
        let ledger = app.ledger("import-1").await;
        assert_eq!(ledger[0].failure.as_ref().unwrap().kind, resurgam::Kind::HeartbeatTimeout);
    }
}
