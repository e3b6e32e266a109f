//! Many processes on one schema: who may write, who gets an id, who hears of it.

use std::time::{Duration, Instant};

use resurgam_postgres_server::Server;
use resurgam_store::{
    Commit, Deletion, Look, MessageWrite, Own, Retain, Runnable, Step, StepResult, Work,
};
use resurgam_store_postgres::PostgresStore;

use crate::support::*;

#[tokio::test]
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

#[tokio::test]
async fn an_older_epoch_of_the_same_name_is_refused_too() {
    let first = open().await;
    let _right = own(&first, "node-a").await;
    first.database.run("UPDATE resurgam.shard SET epoch = epoch + 1 WHERE shard = 0").await;
    let in_shard_0 = (1..).find(|number| run(*number).uid.shard().0 == 0).unwrap();
    assert!(first.commit([start(in_shard_0)].into()).await.unwrap_err().is_fenced());
    let elsewhere = (1..).find(|number| run(*number).uid.shard().0 != 0).unwrap();
    write(&first, [start(elsewhere)]).await;
}

#[tokio::test]
async fn a_takeover_waits_for_a_commit_that_is_under_way() {
    let first = open().await;
    let (sql, connection) =
        tokio_postgres::connect(&first.database.url(), tokio_postgres::NoTls).await.unwrap();
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
    let take = "UPDATE resurgam.shard SET owner = 'node-b', epoch = epoch + 1";
    let (written, ()) = tokio::join!(held_up, async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let taking = tokio::time::timeout(Duration::from_millis(200), first.database.run(take));
        assert!(taking.await.is_err(), "the takeover waits");
        sql.batch_execute("COMMIT").await.unwrap();
    });
    written.unwrap();
    drop(right);
}

#[tokio::test]
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

#[tokio::test]
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

#[tokio::test]
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

#[tokio::test]
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

#[tokio::test]
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

#[tokio::test]
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

#[tokio::test]
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

#[tokio::test]
async fn the_commits_of_others_are_heard_of_at_once_and_seen_within_half_a_second() {
    let listening = open().await;
    let database = &listening.database;
    let options = few().without_listening();
    let polling = PostgresStore::connect(&database.url(), options).await.unwrap();
    let writer = connect(database).await;
    let mut own = writer.changes();
    let (mut heard, mut seen) = (Vec::new(), Vec::new());
    for number in 1..=4 {
        // Until everybody listens and looks rarely.
        tokio::time::sleep(Duration::from_millis(700)).await;
        let (mut hears, mut sees) = (listening.changes(), polling.changes());
        let begin = Instant::now();
        write(&writer, [start(number)]).await;
        let (hear, see) = tokio::join!(
            async {
                hears.changed().await.unwrap();
                begin.elapsed()
            },
            async {
                sees.changed().await.unwrap();
                begin.elapsed()
            }
        );
        heard.push(hear);
        seen.push(see);
    }
    println!("heard after {heard:?}, seen after {seen:?}");
    // The best of them: others use this machine too.
    assert!(heard.iter().min() < Some(&Duration::from_millis(50)), "heard after {heard:?}");
    assert!(seen.iter().min() < Some(&Duration::from_millis(500)), "seen after {seen:?}");
    // One's own commits are no news.
    assert!(!own.has_changed().unwrap());
    own.mark_unchanged();
}

#[tokio::test]
async fn a_node_that_has_nothing_to_do_makes_few_statements() {
    let store = open().await;
    let _right = own(&store, "node-a").await;
    let count = async || {
        let sql = format!(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = '{}'",
            store.database.name()
        );
        store.database.server().ask(&sql).await.parse::<u64>().unwrap()
    };
    // The server counts them with up to a second's delay.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let (before, begin) = (count().await, Instant::now());
    tokio::time::sleep(Duration::from_millis(4_500)).await;
    let (after, seconds) = (count().await, begin.elapsed().as_secs_f64());
    let rate = (after - before) as f64 / seconds;
    println!("{rate:.1} transactions a second");
    // About three: the server counts late, so some of them may be of before.
    assert!(after > before && rate < 5.0, "{rate} transactions a second");
}

/// All futures at once.
async fn join_all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<_> = futures.map(Box::pin).collect();
    let mut answers: Vec<Option<F::Output>> = all.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
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
