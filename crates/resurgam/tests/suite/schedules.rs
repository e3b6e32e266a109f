//! Schedules and deletions on a real file, asked for by one that does not work on it.

use std::path::Path;
use std::time::Duration;

use resurgam::prelude::*;
use resurgam::schedule::{Overlap, Rule};
use resurgam::{Client, ClosedFilter, InstanceFilter, Status};
use resurgam_watchdog::test;
use tempfile::TempDir;
use tokio::sync::mpsc;

/// Tells the tests which app began an instance.
#[derive(Clone)]
struct Told(&'static str, mpsc::UnboundedSender<(&'static str, u32)>);

#[activity]
async fn tell(ctx: ActivityContext, number: u32) -> Result<(), Failure> {
    let told = ctx.state::<Told>();
    // The test may be over.
    let _nobody = told.1.send((told.0, number));
    Ok(())
}

#[workflow]
async fn report(ctx: WorkflowContext, number: u32) -> Result<(), Failure> {
    ctx.call(tell(number)).await
}

#[workflow]
async fn asked(ctx: WorkflowContext) -> Result<u32, Failure> {
    ctx.signal("number").await
}

type Ears = mpsc::UnboundedReceiver<(&'static str, u32)>;

/// Waits until this is told. What was fired earlier may be told only now, and is passed over.
async fn hear(told: &mut Ears, wanted: (&'static str, u32)) {
    loop {
        let heard =
            told.recv().await.unwrap_or_else(|| panic!("nobody is left to tell {wanted:?}"));
        if heard == wanted {
            return;
        }
    }
}

async fn app(file: &Path, told: Told) -> App {
    App::builder()
        .workflow(report)
        .workflow(asked)
        .activity(tell)
        .state(told)
        .grace(Duration::ZERO)
        .sqlite(file)
        .await
        .unwrap()
}

async fn ground() -> (TempDir, App, Client, Ears) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("app.db");
    let (sender, ears) = mpsc::unbounded_channel();
    let app = app(&file, Told("first", sender)).await;
    let client = Client::sqlite(&file).await.unwrap();
    (folder, app, client, ears)
}

/// Asks until the file is free: a client is refused where others keep it for longer than it waits.
async fn patiently<T, F: Future<Output = resurgam::Result<T>>>(ask: impl Fn() -> F) -> T {
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => assert!(error.is_transient(), "{error}"),
        }
    }
}

#[test]
async fn a_client_creates_and_changes_schedules_that_the_owner_fires() {
    let (_folder, app, client, mut told) = ground().await;
    let second = Rule::every(Duration::from_secs(1));
    client.schedule("poll", second.clone(), report(1)).overlap(Overlap::Allow).await.unwrap();
    assert_eq!(told.recv().await, Some(("first", 1)));
    assert_eq!(told.recv().await, Some(("first", 1)));

    client.pause_schedule("poll").await.unwrap();
    assert!(app.describe_schedule("poll").await.unwrap().unwrap().paused);
    client.schedule("poll", second, report(2)).overlap(Overlap::Allow).replace().await.unwrap();
    let id = client.run_schedule_now("poll").await.unwrap();
    hear(&mut told, ("first", 2)).await;
    client.instance::<()>(&id).await.unwrap().unwrap().result().await.unwrap();
    client.resume_schedule("poll").await.unwrap();
    hear(&mut told, ("first", 2)).await;

    client.delete_schedule("poll").await.unwrap();
    assert_eq!(app.schedules().await.unwrap(), []);
    let filter = InstanceFilter { schedule: Some("poll".into()), ..InstanceFilter::default() };
    assert!(client.list(filter).await.unwrap().len() >= 4);
    app.stop().await.unwrap();
}

#[test]
async fn a_standby_goes_on_firing_where_the_owner_ended() {
    let (folder, first, client, mut told) = ground().await;
    let rule = Rule::every(Duration::from_secs(1));
    client.schedule("poll", rule, report(1)).overlap(Overlap::Allow).await.unwrap();
    let file = folder.path().join("app.db");
    let (sender, mut second_told) = mpsc::unbounded_channel();
    let second = app(&file, Told("second", sender)).await;
    assert!(!second.is_owner());
    assert_eq!(told.recv().await, Some(("first", 1)));
    drop(first); // as a crash would
    assert_eq!(second_told.recv().await, Some(("second", 1)));
    assert_eq!(second_told.recv().await, Some(("second", 1)));
    client.delete_schedule("poll").await.unwrap();
    let filter = InstanceFilter { schedule: Some("poll".into()), ..InstanceFilter::default() };
    let rows = client.list(filter).await.unwrap();
    let mut ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "{ids:?}");
    second.stop().await.unwrap();
}

#[test]
async fn changes_from_all_sides_undo_nothing() {
    let (_folder, app, client, _told) = ground().await;
    let rule = Rule::every(Duration::from_secs(1));
    client.schedule("poll", rule, report(1)).overlap(Overlap::Allow).await.unwrap();
    let sides: Vec<Client> = vec![(*app).clone(), client.clone(), client.clone()];
    let busy = sides.into_iter().map(|side| {
        tokio::spawn(async move {
            for _ in 0..30 {
                patiently(|| side.run_schedule_now("poll")).await;
                patiently(|| side.pause_schedule("poll")).await;
                patiently(|| side.resume_schedule("poll")).await;
            }
        })
    });
    for side in busy.collect::<Vec<_>>() {
        side.await.unwrap();
    }
    client.pause_schedule("poll").await.unwrap();
    let description = client.describe_schedule("poll").await.unwrap().unwrap();
    let schedule = Some("poll".to_string());
    let filter = InstanceFilter { schedule, limit: 10_000, ..InstanceFilter::default() };
    let rows = client.list(filter).await.unwrap();
    assert!(rows.len() >= 90, "{}", rows.len());
    assert_eq!(rows.len() as u64, description.started);
    app.stop().await.unwrap();
}

#[test]
async fn a_schedule_of_a_workflow_that_the_owner_does_not_know_says_so() {
    #[workflow]
    async fn unheard_of(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.sleep(Duration::from_secs(1)).await
    }
    let (_folder, app, client, mut told) = ground().await;
    let rule = Rule::every(Duration::from_secs(1));
    client.schedule("a", rule.clone(), unheard_of()).await.unwrap();
    client.schedule("b", rule, report(1)).await.unwrap();
    assert_eq!(told.recv().await, Some(("first", 1)));
    assert_eq!(told.recv().await, Some(("first", 1)));
    let [a, b] = client.schedules().await.unwrap().try_into().unwrap();
    assert_eq!(a.error.as_deref(), Some("workflow unheard_of is not registered here"));
    assert_eq!((a.started, b.error), (0, None));
    app.stop().await.unwrap();
}

#[test]
async fn a_client_that_waits_for_a_deleted_instance_gets_an_answer() {
    let (_folder, app, client, _told) = ground().await;
    for round in 0..20 {
        let id = format!("asked-{round}");
        app.start(&id, asked()).await.unwrap();
        let waiting = client.instance::<u32>(&id).await.unwrap().unwrap();
        let outcome = tokio::spawn(async move { waiting.result().await });
        let run = app.instance::<u32>(&id).await.unwrap().unwrap();
        run.signal("number", &7).await.unwrap();
        assert_eq!(run.result().await.unwrap(), 7);
        app.delete(&id).await.unwrap();
        match outcome.await.unwrap() {
            Ok(number) => assert_eq!(number, 7),
            Err(error) => assert!(error.is_unknown(), "{error}"),
        }
    }
    app.stop().await.unwrap();
}

#[test]
async fn a_client_deletes_what_is_closed() {
    let (_folder, app, client, _told) = ground().await;
    for number in 0..3 {
        let run = app.start(format!("report-{number}"), report(number)).await.unwrap();
        run.result().await.unwrap();
    }
    app.start("asked", asked()).await.unwrap();
    assert!(client.delete("asked").await.unwrap_err().is_open());
    let completed = ClosedFilter { status: vec![Status::Completed], ..ClosedFilter::default() };
    assert_eq!(client.delete_closed(completed).await.unwrap(), 3);
    assert_eq!(app.list(InstanceFilter::default()).await.unwrap().len(), 1);
    app.stop().await.unwrap();
}
