//! The bank in virtual time.

use resurgam_testing::TestApp;

use super::*;

async fn app() -> TestApp {
    TestApp::builder()
        .workflow(pay)
        .activity(transfer)
        .stub(tell, |_, _| Ok(()))
        .sqlite_setup(set_up)
        .start()
        .await
}

async fn balances(app: &TestApp) -> (i64, i64) {
    let read = app.client().tables().read(|tx| Ok((balance(tx, "ada")?, balance(tx, "bob")?)));
    read.await.unwrap()
}

#[tokio::test]
async fn money_moves_once_although_the_first_attempt_fails() {
    let app = app().await;
    let run = app.start("rent", pay("ada".into(), "bob".into(), 3_000)).await;
    assert_eq!(run.result().await.unwrap().left, 7_000);
    assert_eq!((app.attempts(transfer), app.attempts(tell)), (2, 1));
    assert_eq!(balances(&app).await, (7_000, 3_000));
}

#[tokio::test]
async fn money_that_is_not_there_does_not_move() {
    let app = app().await;
    let run = app.start("rent", pay("bob".into(), "ada".into(), 5)).await;
    let failure = run.failure().await;
    assert_eq!(failure.message, "bob lacks 5 cents");
    assert_eq!((app.attempts(transfer), app.attempts(tell)), (1, 0));
    assert_eq!(balances(&app).await, (10_000, 0));
}
