//! Many processes on one schema: who may write, who gets an id, who hears of it.

use std::future::poll_fn;
use std::time::{Duration, Instant};

use resurgam_postgres_server::{Database, Server};
use resurgam_store::{
    Commit, Deletion, Inspect, MessageWrite, Own, Retain, Runnable, Step, StepResult, Work,
};
use resurgam_store_postgres::PostgresStore;
use resurgam_watchdog::test;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_postgres::{AsyncMessage, Client, NoTls};

use crate::support::*;

#[test]
async fn an_owner_that_was_overtaken_writes_nothing_any_more() {
    let first = open().await;
    let _right = own(&first, "node-a").await;
    write(&first, [start(1)]).await;
    // What a node does that found this one dead.
    let taken = "UPDATE resurgam.shard SET owner = 'node-b', epoch = epoch + 1";
    first.database.run(taken).await;
    let error = first.commit([note(1, 3), start(2)].into()).await.unwrap_err();
    assert!(error.is_fenced() && !error.is_transient(), "{error}");
    assert_eq!(first.history(run(1)).await.unwrap().len(), 2);
    assert!(first.find("order-2").await.unwrap().is_none());
}

#[test]
async fn an_older_epoch_of_the_same_name_is_refused_too() {
    let first = open().await;
    let _right = own(&first, "node-a").await;
    first.database.run("UPDATE resurgam.shard SET epoch = epoch + 1 WHERE shard = 0").await;
    let in_shard_0 = (1..).find(|number| run(*number).uid.shard().0 == 0).unwrap();
    assert!(first.commit([start(in_shard_0)].into()).await.unwrap_err().is_fenced());
    let elsewhere = (1..).find(|number| run(*number).uid.shard().0 != 0).unwrap();
    write(&first, [start(elsewhere)]).await;
}

#[test]
async fn a_takeover_waits_for_a_commit_that_is_under_way() {
    let first = open().await;
    let (sql, connection) = tokio_postgres::connect(&first.database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let right = own(&first, "node-a").await;
    let kv = resurgam_store::rows::KvRow {
        uid: run(1).uid,
        key: "colour".into(),
        value: resurgam_core::Payload::null(),
    };
    let step = Step { kv: vec![kv], ..Step::default() };
    write(&first, [step.clone()]).await;
    // Holds up the commit after its fence: at the row, which nobody looks at before.
    sql.batch_execute("BEGIN; SELECT 1 FROM resurgam.kv FOR UPDATE").await.unwrap();
    let held_up = first.commit([step].into());
    let taking = async {
        blocked(&first.database, ".kv ").await;
        let take = "UPDATE resurgam.shard SET owner = 'node-b', epoch = epoch + 1";
        first.database.run(take).await;
    };
    let release = async {
        blocked(&first.database, "UPDATE resurgam.shard SET owner").await;
        sql.batch_execute("COMMIT").await.unwrap();
    };
    let (written, (), ()) = tokio::join!(held_up, taking, release);
    written.unwrap();
    drop(right);
}

#[test]
async fn of_many_starts_of_one_id_one_is_written() {
    let first = open().await;
    let mut stores = vec![first.store];
    for _ in 0..3 {
        stores.push(connect(&first.database).await);
    }
    for round in 0..10 {
        let starts = stores.iter().zip(0..).map(|(store, nth)| {
            let mut step = start(100 + round * 10 + nth);
            if let Some(resurgam_store::InstanceWrite::Insert { row, .. }) = &mut step.instance {
                row.id = format!("contended-{round}");
            }
            store.commit([start(1_000 + round * 10 + nth), step].into())
        });
        let mut written = 0;
        for results in join_all(starts).await {
            let results = results.unwrap();
            assert_eq!(results[0], StepResult::Written);
            written += usize::from(results[1] == StepResult::Written);
        }
        assert_eq!(written, 1);
    }
}

#[test]
async fn a_signal_is_refused_or_parked_with_the_instance_that_closes_meanwhile() {
    let owner = open().await;
    let client = connect(&owner.database).await;
    for number in 1..=20 {
        write(&owner, [start(number)]).await;
        let told = client.commit([tell(number, "late")].into());
        let closed = owner.commit([close(number)].into());
        let (told, closed) = tokio::join!(told, closed);
        assert_eq!(closed.unwrap(), [StepResult::Written]);
        let messages = owner.messages(run(number).uid).await.unwrap();
        match told.unwrap()[..] {
            [StepResult::Written] => assert_eq!(messages.len(), 2),
            _ => assert_eq!(messages.len(), 1),
        }
    }
    // Whoever came first: nothing wakes an instance that is closed.
    assert_eq!(owner.due_messages(LATER, 100).await.unwrap(), []);
}

#[test]
async fn messages_of_many_processes_are_read_in_the_order_of_their_acknowledgement() {
    let first = open().await;
    let second = connect(&first.database).await;
    write(&first, [start(1)]).await;
    let mut expected = vec!["paid".to_string()];
    for number in 0..40 {
        let store = if number % 3 == 0 { &second } else { &first.store };
        // Ids in another order than they arrive, several at a time now and then.
        let ids: Vec<String> =
            (0..=number % 4).map(|nth| format!("{}-{nth}", (number * 7) % 41)).collect();
        let messages = ids.iter().map(|id| MessageWrite::Insert(signal(run(1).uid, id))).collect();
        write(store, [Step { messages, ..Step::default() }]).await;
        expected.extend(ids);
        if number == 20 {
            // The server's clock steps back by an hour, as far as the rows can tell.
            let sql = "UPDATE resurgam.message SET arrival = arrival + 3600000000";
            first.database.run(sql).await;
        }
    }
    let found = first.messages(run(1).uid).await.unwrap();
    assert_eq!(found.into_iter().map(|row| row.id).collect::<Vec<_>>(), expected);
}

#[test]
async fn a_crowded_shard_is_read_as_far_as_it_must_be() {
    let store = open().await;
    // All in one shard, but for one that is due last.
    let mut crowded: Vec<u128> =
        (1..).filter(|number| run(*number).uid.shard().0 == 7).take(60).collect();
    crowded.push((1..).find(|number| run(*number).uid.shard().0 != 7).unwrap());
    let steps = crowded.iter().zip(0..).map(|(number, nth)| {
        let mut step = start(*number);
        if let [resurgam_store::TaskWrite::Insert(task)] = &mut step.tasks[..] {
            task.wake_at = resurgam_core::Timestamp::from_millis(nth);
        }
        step
    });
    write(&store, steps.collect::<Vec<Step>>()).await;
    let due = store.due_tasks(Runnable::default(), LATER, 50).await.unwrap();
    let due: Vec<i64> = due.iter().map(|task| task.wake_at.as_millis()).collect();
    assert_eq!(due, (0..50).collect::<Vec<i64>>());
    assert_eq!(store.due_tasks(Runnable::default(), LATER, 1_000).await.unwrap().len(), 61);
    assert_eq!(store.due_messages(LATER, 1_000).await.unwrap().len(), 61);
    assert_eq!(store.due_messages(LATER, 59).await.unwrap().len(), 59);
}

#[test]
async fn two_who_delete_what_is_closed_delete_all_of_it_and_nothing_twice() {
    let first = open().await;
    let second = connect(&first.database).await;
    let closed = (1..=300).flat_map(|number| [start(number), close(number)]);
    write(&first, closed.collect::<Vec<Step>>()).await;
    write(&first, [start(301)]).await;
    let sweep = resurgam_store::Sweep {
        status: resurgam_store::rows::Status::Completed,
        closed_before: LATER,
        workflow: None,
        tag: None,
        after: None,
    };
    let delete = async |store: &PostgresStore| {
        let (mut instances, mut left) = (0, true);
        while left {
            match store.delete_closed(Deletion::Many(sweep.clone())).await {
                Ok(done) => (instances, left) = (instances + done.instances, done.more),
                Err(error) => assert!(error.is_transient(), "{error}"),
            }
        }
        instances
    };
    let (one, two) = tokio::join!(delete(&first), delete(&second));
    assert_eq!(one + two, 300);
    let rows = "SELECT (SELECT count(*) FROM resurgam.instance) || ' '
                    || (SELECT count(*) FROM resurgam.event) || ' '
                    || (SELECT count(*) FROM resurgam.message) || ' '
                    || (SELECT count(*) FROM resurgam.task)";
    assert_eq!(first.database.ask(rows).await, "1 2 1 1");
}

#[test]
async fn many_programs_that_start_at_once_make_the_schema_once() {
    let database = Server::shared().database().await;
    let url = database.url();
    let stores = join_all((0..6).map(|_| PostgresStore::connect(&url, few()))).await;
    assert!(stores.iter().all(Result::is_ok), "{stores:?}");
    assert_eq!(database.ask("SELECT count(*) FROM resurgam.shard").await, "256");
    let other = few().schema("the \"other\" schema");
    let store = PostgresStore::connect(&url, other).await.unwrap();
    write(&store, [start(1)]).await;
    assert!(stores[0].as_ref().unwrap().find("order-1").await.unwrap().is_none());
}

#[test]
async fn a_batch_is_one_round_trip_and_one_with_a_duplicate_is_three() {
    let store = open().await;
    write(&store, [start(1)]).await;
    let before = store.commits().round_trips;
    write(&store, [start(2), note(1, 3), close(2), tell(1, "again"), start(3)]).await;
    assert_eq!(store.commits().round_trips - before, 1);
    let results = store.commit([start(3), start(4)].into()).await.unwrap();
    assert_eq!(results, [StepResult::Duplicate, StepResult::Written]);
    assert_eq!(store.commits().round_trips - before, 4);
}

#[test]
async fn the_commits_of_others_are_heard_of_and_seen() {
    let listening = open().await;
    let database = &listening.database;
    let options = few().without_listening();
    let polling = PostgresStore::connect(&database.url(), options).await.unwrap();
    let writer = connect(database).await;
    let own = writer.changes();
    let (_sql, mut hints) = hints(database).await;
    let (mut heard, mut seen) = (Vec::new(), Vec::new());
    for number in 1..=4 {
        let (mut hears, mut sees) = (listening.changes(), polling.changes());
        let begin = Instant::now();
        write(&writer, [start(number)]).await;
        let (hear, see) = tokio::join!(
            async {
                within("news for the one that listens", hears.changed()).await.unwrap();
                begin.elapsed()
            },
            async {
                within("news for the one that polls", sees.changed()).await.unwrap();
                begin.elapsed()
            }
        );
        heard.push(hear);
        seen.push(see);
        // Others are told, too.
        let hint = format!("{} commits", writer.writer());
        let told = async { while hints.recv().await.unwrap() != hint {} };
        within("the hint of the one that writes", told).await;
    }
    println!("heard after {heard:?}, seen after {seen:?}");
    // One's own commits are no news.
    assert!(!own.has_changed().unwrap());
}

/// What is said to all who listen, for as long as the connection lives.
async fn hints(database: &Database<'_>) -> (Client, UnboundedReceiver<String>) {
    let (sql, mut connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    let (told, hints) = unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(hint) = message {
                let _nobody_waits = told.send(hint.payload().to_string());
            }
        }
    });
    sql.batch_execute("LISTEN \"resurgam resurgam\"").await.unwrap();
    (sql, hints)
}

#[test]
async fn a_node_that_has_nothing_to_do_makes_few_statements() {
    let database = watched().await;
    // The usual lease, which says how often it beats.
    let options = few().schema("idle").lease(Duration::from_secs(10));
    let store = PostgresStore::connect(&database.url(), options).await.unwrap();
    let _right = own(&store, "node-a").await;
    let beat =
        async || -> i64 { database.ask("SELECT beat FROM idle.node").await.parse().unwrap() };
    let begin = Instant::now();
    let (before, first) = (statements("idle").len(), beat().await);
    poll("four beats", async || (beat().await >= first + 4).then_some(())).await;
    let made = statements("idle").len() - before;
    let seconds = begin.elapsed().as_secs_f64();
    println!("{made} statements in {seconds:.1} s");
    // It waits between any two of them, so load makes them fewer. A few more come at first.
    assert!(made >= 4 && (made as f64) < 10.0 + 3.0 * seconds, "{made} in {seconds} s");
}

/// All futures at once.
async fn join_all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<_> = futures.map(Box::pin).collect();
    let mut answers: Vec<Option<F::Output>> = all.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, answer) in all.iter_mut().zip(&mut answers) {
            if answer.is_none()
                && let std::task::Poll::Ready(ready) = future.as_mut().poll(context)
            {
                *answer = Some(ready);
            }
        }
        match answers.iter().all(Option::is_some) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    answers.into_iter().flatten().collect()
}
