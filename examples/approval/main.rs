//! An approval: an expense waits for a signal, but not for ever.
//!
//! ```sh
//! cargo run -p resurgam-examples --bin approval -- expenses.db
//! ```
//!
//! The wait is durable: it takes no thread and no memory, and a restart does not prolong it. Here
//! it is half a second; three days are the same code.

use std::time::Duration;

use resurgam::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Expense {
    what: String,
    cents: u64,
}

/// What the manager sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Answer {
    Approved { by: String },
    Rejected { why: String },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Outcome {
    Paid,
    Rejected(String),
    /// Nobody answered.
    Expired,
}

#[workflow]
async fn expense_claim(
    ctx: WorkflowContext,
    expense: Expense,
    patience: Duration,
) -> Result<Outcome, Failure> {
    ctx.call(ask_manager(expense.clone())).await?;
    // Who looks from outside sees what the claim is waiting for.
    ctx.set_status("waits for an answer");
    // A signal that came before this line is not lost: signals are kept until they are read.
    let answer = ctx.timeout(patience, ctx.signal::<Answer>("answer")).await;
    let outcome = match answer {
        Err(_elapsed) => Outcome::Expired,
        Ok(answer) => match answer? {
            Answer::Rejected { why } => Outcome::Rejected(why),
            Answer::Approved { by } => {
                ctx.set("approved_by", &by);
                ctx.call(pay(expense.cents)).await?;
                Outcome::Paid
            }
        },
    };
    ctx.set_status(&outcome);
    Ok(outcome)
}

#[activity]
async fn ask_manager(expense: Expense) -> Result<(), Failure> {
    println!("  mail: may we pay {} cents for {}?", expense.cents, expense.what);
    Ok(())
}

#[activity]
async fn pay(ctx: ActivityContext, cents: u64) -> Result<String, Failure> {
    Ok(format!("{cents} cents, {}", ctx.idempotency_key()))
}

fn expense(what: &str) -> Expense {
    Expense { what: what.to_string(), cents: 4_200 }
}

#[tokio::main]
async fn main() -> resurgam::Result<()> {
    let file = std::env::args().nth(1).unwrap_or_else(|| "expenses.db".to_string());
    let app = App::builder()
        .workflow(expense_claim)
        .activity(ask_manager)
        .activity(pay)
        .sqlite(&file)
        .await?;
    let approved = Answer::Approved { by: "Ada".to_string() };
    let rejected = Answer::Rejected { why: "no receipt".to_string() };
    let claims =
        [("lamp", Some(approved)), ("train", Some(rejected)), ("champagne", None::<Answer>)];
    for (what, answer) in claims {
        let id = format!("expense-{what}");
        println!("{id}");
        // Nobody will answer the third claim, so nobody has to wait for it for long.
        let patience = Duration::from_millis(if answer.is_some() { 60_000 } else { 500 });
        let claim = expense_claim(expense(what), patience);
        match app.start(&id, claim).await {
            Err(error) if !error.is_already_exists() => return Err(error),
            _ => {}
        }
        if let Some(answer) = answer {
            // Sending it to a claim that is closed is an error; the second run of this program
            // finds all of them closed.
            match app.signal(&id, "answer", &answer).await {
                Err(error) if !error.is_closed() => return Err(error),
                _ => {}
            }
        }
        if let Some(claim) = app.instance::<Outcome>(&id).await? {
            println!("  {:?}", claim.result().await?);
        }
    }
    app.stop().await
}

#[cfg(test)]
mod tests {
    //! In virtual time: three days pass at once.
    #![allow(clippy::unwrap_used)]

    use resurgam_testing::TestApp;

    use super::*;

    const THREE_DAYS: Duration = Duration::from_secs(3 * 86_400);

    async fn app() -> TestApp {
        TestApp::builder().workflow(expense_claim).activity(ask_manager).activity(pay).start().await
    }

    #[tokio::test]
    async fn an_answer_on_the_last_day_is_in_time_across_a_restart() {
        let app = app().await;
        let run = app.start("expense-1", expense_claim(expense("lamp"), THREE_DAYS)).await;
        app.advance(THREE_DAYS - Duration::from_secs(1)).await;
        app.restart().await;
        let status: Option<String> = app.client().status("expense-1").await.unwrap();
        assert_eq!(status.as_deref(), Some("waits for an answer"));
        run.signal("answer", &Answer::Approved { by: "Ada".to_string() }).await.unwrap();
        assert_eq!(run.result().await.unwrap(), Outcome::Paid);
    }

    #[tokio::test]
    async fn nobody_answers_for_three_days() {
        let app = app().await;
        let began = app.now();
        let run = app.start("expense-1", expense_claim(expense("lamp"), THREE_DAYS)).await;
        assert_eq!(run.result().await.unwrap(), Outcome::Expired);
        assert_eq!(app.now().since(began), THREE_DAYS);
        assert_eq!(app.attempts(pay), 0);
    }

    #[tokio::test]
    async fn an_answer_that_makes_no_sense_fails_the_claim() {
        let app = app().await;
        let run = app.start("expense-1", expense_claim(expense("lamp"), THREE_DAYS)).await;
        run.signal("answer", &"perhaps").await.unwrap();
        let failure = run.failure().await;
        assert_eq!(failure.type_name.as_deref(), Some("BadSignal"));
    }
}
