//! Rows that others insert with plain SQL are read in order and taken once, and what cannot be read
//! is refused.

use std::time::Instant;

use resurgam_core::{Payload, Timestamp};
use resurgam_store::{
    Commit, Inbox, InboxRow, InboxWrite, Inspect, Node, Own, Owning, Step, StepResult,
};
use resurgam_store_postgres::PostgresStore;
use resurgam_watchdog::test;

use crate::support::*;

/// Inserts rows as a program does that knows nothing of us but the columns of the guide.
async fn insert(open: &Open, values: &str) {
    let columns = "id, instance, kind, name, body";
    open.database.run(&format!("INSERT INTO resurgam.inbox ({columns}) VALUES {values}")).await;
}

/// What is left in the inbox: the instance of each row, and why it was refused.
async fn left(open: &Open) -> String {
    let rows = "SELECT coalesce(string_agg(instance || ' ' || coalesce(error, '-'), ', '
                                           ORDER BY arrival), '') FROM resurgam.inbox";
    open.database.ask(rows).await
}

fn take(row: InboxRow, at: i64) -> Step {
    let inbox = Some(InboxWrite::Take { row, at: Timestamp::from_millis(at) }.into());
    Step { inbox, ..Step::default() }
}

/// A step that starts an instance because of this row.
fn starting(row: InboxRow, number: u128) -> Step {
    Step { inbox: take(row, 0).inbox, ..start(number) }
}

async fn only(store: &PostgresStore) -> InboxRow {
    let rows = store.inbox(10).await.unwrap();
    assert_eq!(rows.len(), 1);
    rows.into_iter().next().unwrap()
}

#[test]
async fn rows_come_in_the_order_of_their_arrival() {
    let store = open().await;
    insert(&store, "(NULL, 'b', 'start', 'fulfil', '{}'), ('7', 'a', 'signal', 'paid', NULL)")
        .await;
    insert(&store, "(NULL, 'c', 'cancel', NULL, '\"enough\"')").await;
    let rows = store.inbox(10).await.unwrap();
    let first = InboxRow {
        arrival: rows[0].arrival,
        id: None,
        instance: "b".into(),
        kind: "start".into(),
        name: Some("fulfil".into()),
        body: Some(Payload::from_text("{}")),
    };
    assert_eq!(rows[0], first);
    assert_eq!((rows[1].instance.as_str(), rows[1].id.as_deref()), ("a", Some("7")));
    assert_eq!((rows[1].body.as_ref(), rows[2].instance.as_str()), (None, "c"));
    assert_eq!(store.inbox(1).await.unwrap(), [first]);
}

#[test]
async fn rows_of_one_moment_are_told_apart_and_keep_their_order() {
    let store = open().await;
    let many: Vec<String> =
        (0..200).map(|number| format!("(NULL, 'order-{number}', 'start', NULL, NULL)")).collect();
    insert(&store, &many.join(",")).await;
    // As if the clock had not moved meanwhile, and moved once in the middle.
    let stand_still = "UPDATE resurgam.inbox SET arrival = 1000000 + (split_part(instance, '-', 2)
                       ::int / 100)";
    store.database.run(stand_still).await;
    let rows = store.inbox(1_000).await.unwrap();
    let arrivals: Vec<i64> = rows.iter().map(|row| row.arrival).collect();
    assert!(arrivals.is_sorted_by(|a, b| a < b), "{arrivals:?}");
    let instances: Vec<&str> = rows.iter().map(|row| row.instance.as_str()).collect();
    let inserted: Vec<String> = (0..200).map(|number| format!("order-{number}")).collect();
    assert_eq!(instances, inserted);
    // One that is refused refuses no other.
    let refuse = InboxWrite::Refuse { arrival: arrivals[7], error: "no".into() };
    write(&store, [Step { inbox: Some(refuse.into()), ..Step::default() }]).await;
    let refused = "SELECT count(*) FROM resurgam.inbox WHERE error IS NOT NULL";
    assert_eq!(store.database.ask(refused).await, "1");
}

#[test]
async fn a_row_goes_with_what_it_causes_or_not_at_all() {
    let store = open().await;
    write(&store, [start(1)]).await;
    insert(&store, "('7', 'order-1', 'start', 'fulfil', '{}')").await;
    let row = only(&store).await;
    let refused = Step { inbox: take(row.clone(), 0).inbox, ..start(1) };
    assert_eq!(store.commit([refused].into()).await.unwrap(), [StepResult::Duplicate]);
    assert_eq!(only(&store).await, row);
    write(&store, [starting(row, 2)]).await;
    assert_eq!(left(&store).await, "");
    assert!(store.find("order-2").await.unwrap().is_some());
}

#[test]
async fn a_row_is_taken_once_by_one_of_many() {
    let store = open().await;
    insert(&store, "(NULL, 'order-1', 'start', 'fulfil', '{}')").await;
    let row = only(&store).await;
    let twice = [starting(row.clone(), 1), starting(row, 2)];
    let results = store.commit(twice.into()).await.unwrap();
    assert_eq!(results, [StepResult::Written, StepResult::Missed]);
    assert_eq!(store.find("order-2").await.unwrap(), None);

    let other = connect(&store.database).await;
    for round in 0_u128..10 {
        insert(&store, "(NULL, 'contended', 'start', 'fulfil', '{}')").await;
        let row = only(&store).await;
        let (first, second) = tokio::join!(
            store.commit([starting(row.clone(), 10 + 2 * round)].into()),
            other.commit([starting(row, 11 + 2 * round)].into())
        );
        let mut results = [first.unwrap()[0], second.unwrap()[0]];
        results.sort_by_key(|result| *result == StepResult::Missed);
        assert_eq!(results, [StepResult::Written, StepResult::Missed]);
    }
}

#[test]
async fn a_row_that_was_changed_meanwhile_is_left_alone() {
    let store = open().await;
    insert(&store, "(NULL, 'order-1', 'start', 'fulfil', '{}')").await;
    let row = only(&store).await;
    store.database.run("UPDATE resurgam.inbox SET body = '{\"other\":1}'").await;
    let results = store.commit([starting(row.clone(), 1)].into()).await.unwrap();
    assert_eq!(results, [StepResult::Missed]);
    let changed = only(&store).await;
    assert_eq!((changed.arrival, changed.body == row.body), (row.arrival, false));
}

#[test]
async fn a_row_that_came_before_is_dropped_for_as_long_as_its_id_is_remembered() {
    let store = open().await;
    insert(&store, "('7', 'order-1', 'start', 'fulfil', '{}')").await;
    write(&store, [take(only(&store).await, 1_000)]).await;

    insert(&store, "('7', 'order-2', 'start', 'fulfil', '{}')").await;
    let again = starting(only(&store).await, 2);
    assert_eq!(store.commit([again].into()).await.unwrap(), [StepResult::Missed]);
    assert_eq!(left(&store).await, "");
    assert_eq!(store.find("order-2").await.unwrap(), None);

    let forget = |before| Step {
        inbox: Some(InboxWrite::Forget { before: Timestamp::from_millis(before) }.into()),
        ..Step::default()
    };
    write(&store, [forget(1_000)]).await;
    insert(&store, "('7', 'order-3', 'start', 'fulfil', '{}')").await;
    let again = take(only(&store).await, 2_000);
    assert_eq!(store.commit([again].into()).await.unwrap(), [StepResult::Missed]);
    write(&store, [forget(1_001)]).await;
    insert(&store, "('7', 'order-4', 'start', 'fulfil', '{}')").await;
    write(&store, [starting(only(&store).await, 4)]).await;
}

#[test]
async fn a_refused_row_stays_with_the_reason_and_is_not_read_again() {
    let store = open().await;
    insert(&store, "('7', 'order-1', 'dance', NULL, NULL)").await;
    let arrival = only(&store).await.arrival;
    let inbox = Some(InboxWrite::Refuse { arrival, error: "nobody dances".into() }.into());
    write(&store, [Step { inbox, ..Step::default() }]).await;
    assert_eq!(store.inbox(10).await.unwrap(), []);
    assert_eq!(left(&store).await, "order-1 nobody dances");
    // Its id is not remembered: it can be mended.
    store.database.run("UPDATE resurgam.inbox SET kind = 'start', error = NULL").await;
    write(&store, [starting(only(&store).await, 1)]).await;
}

#[test]
async fn a_row_that_cannot_be_read_is_refused_and_holds_up_nobody() {
    let store = open().await;
    insert(&store, "(NULL, 'b', 'start', 'fulfil', '{}')").await;
    store.database.run("UPDATE resurgam.inbox SET encoding = 'zstd'").await;
    insert(&store, "(NULL, 'c', 'start', 'fulfil', '{}')").await;
    assert_eq!(only(&store).await.instance, "c");
    assert_eq!(left(&store).await, "b the encoding \"zstd\" is not known here, c -");
    // Another program that connects does not take the refusal back.
    let another = connect(&store.database).await;
    assert_eq!(only(&another).await.instance, "c");
}

#[test]
async fn who_may_insert_and_nothing_else_can_ask_for_work() {
    let store = open().await;
    let role = format!("shop_{}", store.database.name());
    let rights = format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA resurgam TO {role};
         GRANT INSERT ON resurgam.inbox TO {role}"
    );
    store.database.run(&rights).await;
    let url = store.database.url().replace("resurgam@", &format!("{role}@"));
    let (sql, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let order = "BEGIN; INSERT INTO resurgam.inbox (id, instance, kind, name, body)
                        VALUES ('7', 'order-7', 'start', 'fulfil', '{}');
                 NOTIFY \"resurgam resurgam\"; COMMIT";
    sql.batch_execute(order).await.unwrap();
    assert_eq!(only(&store).await.instance, "order-7");
    assert!(sql.batch_execute("SELECT * FROM resurgam.instance").await.is_err());
    store.database.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

#[test]
async fn nodes_share_the_rows_and_those_of_one_instance_are_one_nodes() {
    let first = open().await;
    let second = connect(&first.database).await;
    let _first_right = own(&first, "a").await;
    let Owning::Taken(_right) = second.try_own(Node::new("b")).await.unwrap() else {
        panic!("held");
    };
    let give = poll("shards to give up", async || {
        Some(first.assignment().borrow().give.clone()).filter(|give| !give.is_empty())
    });
    first.release("a", give.await.into()).await.unwrap();
    let take = poll("shards to take", async || {
        Some(second.assignment().borrow().take.clone()).filter(|take| !take.is_empty())
    });
    second.take("b", take.await.into()).await.unwrap();
    for round in 0..3 {
        let rows: Vec<String> = (0..40)
            .map(|number| format!("(NULL, 'order-{number}', 'signal', 'round {round}', NULL)"))
            .collect();
        insert(&first, &rows.join(",")).await;
    }
    let (one, two) = (first.inbox(1_000).await.unwrap(), second.inbox(1_000).await.unwrap());
    assert_eq!(one.len() + two.len(), 120);
    assert!(one.len() > 10 && two.len() > 10, "{} and {}", one.len(), two.len());
    assert!(one.iter().all(|row| two.iter().all(|other| other.instance != row.instance)));
}

#[test]
async fn a_row_is_heard_of_with_a_notification_and_without() {
    for notify in ["", "NOTIFY \"resurgam resurgam\";"] {
        let store = open().await;
        let mut news = store.changes();
        let row = "INSERT INTO resurgam.inbox (instance, kind) VALUES ('a', 'start')";
        let begin = Instant::now();
        store.database.run(&format!("BEGIN; {row}; {notify} COMMIT")).await;
        within("the news of a row", news.changed()).await.unwrap();
        println!("with {notify:?} heard of after {:?}", begin.elapsed());
        assert_eq!(only(&store).await.instance, "a");
    }
}
