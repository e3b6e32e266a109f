//! What pages show as printed is printed.

use resurgam::prelude::*;
use resurgam_testing::{TestApp, replay};
use resurgam_watchdog::test;
use serde::{Deserialize, Serialize};

/// The block below this mark in a page.
fn block(page: &str, mark: &str) -> String {
    let text = resurgam_checks::read(page);
    let (_, rest) = text.split_once(&format!("<!-- from: {mark} -->\n```text\n")).unwrap();
    rest.split_once("```").unwrap().0.to_string()
}

/// A text with `_` in place of all times, and of what is left out.
fn without_times(text: &str) -> String {
    let is_time = |word: &str| {
        // A delay of 990ms is written so, and one of 1.12s so.
        let number = word.strip_suffix("ms").or_else(|| word.strip_suffix('s'));
        number.is_some_and(|number| number.trim_start_matches('+').parse::<f64>().is_ok())
    };
    let words = |line: &str| {
        let words = line.split(' ').map(|word| if is_time(word) { "_" } else { word });
        words.collect::<Vec<&str>>().join(" ")
    };
    let lines = text.lines().map(|line| match line.split_once(" (") {
        // The key of an attempt is drawn.
        Some((before, key)) if key.ends_with(")\"") => format!("{} (...)\"\n", words(before)),
        _ => format!("{}\n", words(line)),
    });
    lines.collect()
}

mod readme {
    use super::*;

    #[derive(Serialize, Deserialize)]
    pub(super) struct Order {
        pub(super) id: String,
        pub(super) items: Vec<String>,
        pub(super) cents: u64,
    }

    #[activity]
    pub(super) async fn reserve(item: String) -> Result<String, Failure> {
        Ok(format!("{item} is on shelf {}", item.len()))
    }

    #[activity]
    pub(super) async fn charge(
        ctx: ActivityContext,
        order_id: String,
        cents: u64,
    ) -> Result<String, Failure> {
        match ctx.attempt() {
            1 => Err(Failure::of_type("GatewayDown", "no answer")),
            _ => Ok(format!("{order_id} paid {cents} ({})", ctx.idempotency_key())),
        }
    }

    #[workflow]
    pub(super) async fn fulfil(ctx: WorkflowContext, order: Order) -> Result<String, Failure> {
        ctx.join_all(order.items.into_iter().map(|item| ctx.call(reserve(item)))).await?;
        ctx.call(charge(order.id, order.cents)).await
    }
}

#[test]
async fn the_history_in_the_readme_is_that_of_such_an_order() {
    let app = TestApp::builder()
        .workflow(readme::fulfil)
        .activity(readme::reserve)
        .activity(readme::charge)
        .start()
        .await;
    let items = vec!["lamp".to_string(), "bulb".to_string()];
    let order = readme::Order { id: "order-42".to_string(), items, cents: 4200 };
    let run = app.start("order-42", readme::fulfil(order)).await;
    run.result().await.unwrap();

    let shown = block("README.md", "the_history_in_the_readme_is_that_of_such_an_order");
    let history = run.history().await.replace("+0ms charge", "+15ms charge");
    let (shown, history) = (without_times(&shown), without_times(&history));
    // The README ends where the order is paid.
    let begins = history.starts_with(&shown);
    assert!(begins, "README.md shows\n{shown}\nbut it is\n{history}");
}

#[activity]
async fn charge(cents: u64) -> Result<u64, Failure> {
    Ok(cents)
}

#[activity]
async fn ship(order: String) -> Result<String, Failure> {
    Ok(format!("{order} is on its way"))
}

mod today {
    use super::*;

    #[workflow]
    pub(super) async fn order(ctx: WorkflowContext, id: String) -> Result<String, Failure> {
        ctx.call(charge(4_200)).await?;
        ctx.call(ship(id)).await
    }
}

mod tomorrow {
    use super::*;

    #[workflow]
    pub(super) async fn order(ctx: WorkflowContext, id: String) -> Result<String, Failure> {
        let shipped = ctx.call(ship(id)).await?;
        ctx.call(charge(4_200)).await?;
        Ok(shipped)
    }
}

#[test]
async fn the_guide_to_testing_shows_the_error_of_a_replay() {
    let app = TestApp::builder().workflow(today::order).activity(charge).activity(ship).start();
    let app = app.await;
    app.start("order-42", today::order("order-42".to_string())).await.result().await.unwrap();
    let history = app.client().export_history("order-42").await.unwrap().unwrap();
    let error = replay(&history, tomorrow::order).unwrap_err().to_string();
    let shown = block("docs/testing.md", "the_guide_to_testing_shows_the_error_of_a_replay");
    assert_eq!(error.trim_end(), shown.trim_end());
}
