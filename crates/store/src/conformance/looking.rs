//! People find what they look for, the newest first, and never more than they asked for.

use std::sync::Arc;

use resurgam_core::event::Compensation;

use super::fixtures::*;
use crate::rows::{InstanceCursor, InstanceFilter, InstanceRow, Status};
use crate::{InstanceWrite, Step, Store};

pub async fn an_instance_is_found_by_its_id(store: &dyn Store) {
    write(store, [start(1, "order-1"), start(2, "order-2")]).await;
    assert_eq!(store.find("order-2").await.unwrap(), Some(instance(2, "order-2")));
    assert_eq!(store.find("order").await.unwrap(), None);
}

pub async fn a_list_shows_the_newest_first(store: &dyn Store) {
    write(store, [start(2, "b"), start(4, "d"), start(1, "a"), start(3, "c")]).await;
    write(store, [close(3)]).await;
    // Among those of one moment, the one that came last.
    let twin = InstanceRow { created_at: at(4_000), ..instance(5, "e") };
    write(store, [start_of(twin)]).await;
    assert_eq!(listed(store, InstanceFilter::default()).await, ["e", "d", "c", "b", "a"]);
}

pub async fn a_list_is_bounded(store: &dyn Store) {
    let steps: Vec<Step> =
        (1..=120).map(|number| start(number, &format!("order-{number}"))).collect();
    write(store, steps).await;
    let three = InstanceFilter { limit: 3, ..InstanceFilter::default() };
    assert_eq!(listed(store, three).await, ["order-120", "order-119", "order-118"]);
    assert_eq!(listed(store, InstanceFilter::default()).await.len(), 100);
    let all = InstanceFilter { limit: 1_000, ..InstanceFilter::default() };
    assert_eq!(listed(store, all).await.len(), 120);
}

pub async fn a_list_can_be_narrowed_by_status_and_workflow(store: &dyn Store) {
    let steps: Vec<Step> = (1..)
        .zip(["a", "b", "c", "d", "e", "f"])
        .map(|(number, id)| {
            let workflow = if number % 2 == 0 { "even" } else { "odd" };
            start_of(InstanceRow { workflow: workflow.to_string(), ..instance(number, id) })
        })
        .collect();
    write(store, steps).await;
    write(store, [set_status(1, Status::Blocked), close(2), set_status(3, Status::Failed)]).await;
    write(store, [set_status(4, Status::Cancelled)]).await;

    let of = |status: &[Status]| InstanceFilter { status: status.to_vec(), ..Default::default() };
    assert_eq!(listed(store, of(&[Status::Running])).await, ["f", "e"]);
    assert_eq!(listed(store, of(&[Status::Completed])).await, ["b"]);
    assert_eq!(listed(store, of(&[Status::Blocked, Status::Failed])).await, ["c", "a"]);
    assert_eq!(listed(store, of(&Status::ALL)).await, ["f", "e", "d", "c", "b", "a"]);

    let even = InstanceFilter { workflow: Some("even".to_string()), ..Default::default() };
    assert_eq!(listed(store, even.clone()).await, ["f", "d", "b"]);
    let running = InstanceFilter { status: vec![Status::Running], ..even.clone() };
    assert_eq!(listed(store, running).await, ["f"]);
    assert_eq!(listed(store, InstanceFilter { limit: 2, ..even }).await, ["f", "d"]);
}

pub async fn a_list_can_be_narrowed_to_what_is_retrying(store: &dyn Store) {
    let mut first_attempt = task(call(2, 2));
    first_attempt.attempt = 1;
    first_attempt.claim = claim("node-a");
    let mut retrying = task(call(3, 2));
    retrying.attempt = 1;
    let also = crate::rows::TaskRow { call: call(3, 3), ..retrying.clone() };
    let batch = [
        start(1, "waits for its first attempt").insert(task(call(1, 2))),
        start(2, "runs its first attempt").insert(first_attempt.clone()),
        start(3, "retries").insert(retrying).insert(also),
        start(4, "does nothing"),
    ];
    write(store, batch).await;
    let retrying = InstanceFilter { retrying: true, ..InstanceFilter::default() };
    assert_eq!(listed(store, retrying.clone()).await, ["retries"]);

    first_attempt.claim = None;
    write(store, [step().update(first_attempt)]).await;
    let both = ["retries", "runs its first attempt"];
    assert_eq!(listed(store, retrying.clone()).await, both);
    let blocked = InstanceFilter { status: vec![Status::Blocked], ..retrying };
    assert_eq!(listed(store, blocked).await, [""; 0]);
}

pub async fn a_list_can_be_narrowed_by_tag(store: &dyn Store) {
    let tagged = |number: u128, id: &str, tags: &[(&str, &str)]| {
        let tags = tags.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        start_of(InstanceRow { tags: tags.collect(), ..instance(number, id) })
    };
    let steps = [
        tagged(1, "a", &[("customer", "ada"), ("colour", "red")]),
        tagged(3, "c", &[("customer", "ada")]),
        tagged(2, "b", &[("customer", "bob")]),
        tagged(4, "d", &[("supplier", "ada")]),
        start(5, "e"),
    ];
    write(store, steps).await;
    write(store, [close(3)]).await;
    // Among those of one moment, the one that came last.
    let twin = InstanceRow { created_at: at(3_000), ..instance(6, "f") };
    let tags = [("customer".to_string(), "ada".to_string())].into();
    write(store, [start_of(InstanceRow { tags, ..twin })]).await;

    let with = |name: &str, value: &str| InstanceFilter {
        tag: Some((name.to_string(), value.to_string())),
        ..InstanceFilter::default()
    };
    assert_eq!(listed(store, with("customer", "ada")).await, ["f", "c", "a"]);
    assert_eq!(listed(store, with("customer", "bob")).await, ["b"]);
    assert_eq!(listed(store, with("customer", "")).await, [""; 0]);
    assert_eq!(listed(store, with("Customer", "ada")).await, [""; 0]);
    let two = InstanceFilter { limit: 2, ..with("customer", "ada") };
    assert_eq!(listed(store, two).await, ["f", "c"]);
    let open = InstanceFilter { status: vec![Status::Running], ..with("customer", "ada") };
    assert_eq!(listed(store, open).await, ["f", "a"]);
    let other = InstanceFilter { workflow: Some("pay".into()), ..with("customer", "ada") };
    assert_eq!(listed(store, other).await, [""; 0]);
    let none = InstanceFilter { schedule: Some("nightly".into()), ..with("customer", "ada") };
    assert_eq!(listed(store, none).await, [""; 0]);
}

pub async fn a_list_can_be_narrowed_by_schedule(store: &dyn Store) {
    let of = |number: u128, id: &str, schedule: &str| {
        let schedule = Some(schedule.to_string());
        start_of(InstanceRow { schedule, ..instance(number, id) })
    };
    let steps = [of(2, "n/2", "n"), of(1, "n/1", "n"), of(3, "m/3", "m"), start(4, "x")];
    write(store, steps).await;
    write(store, [close(1)]).await;
    let with = |schedule: &str| InstanceFilter {
        schedule: Some(schedule.to_string()),
        ..InstanceFilter::default()
    };
    assert_eq!(listed(store, with("n")).await, ["n/2", "n/1"]);
    let closed = InstanceFilter { status: vec![Status::Completed], ..with("n") };
    assert_eq!(listed(store, closed).await, ["n/1"]);
    assert_eq!(listed(store, with("o")).await, [""; 0]);
}

pub async fn a_list_can_be_narrowed_by_tag_schedule_and_compensation(store: &dyn Store) {
    let tagged = |number, id: &str, tags: &[(&str, &str)]| {
        let tags = tags.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        InstanceRow { tags: tags.collect(), ..instance(number, id) }
    };
    let nightly = Some("nightly".to_string());
    let batch = [
        start_of(tagged(1, "a", &[("city", "Rome"), ("size", "1")])),
        start_of(tagged(2, "b", &[("city", "Oslo"), ("size", "Rome")])),
        start_of(InstanceRow { schedule: nightly.clone(), ..tagged(3, "c", &[("city", "Rome")]) }),
        start_of(InstanceRow { schedule: nightly.clone(), ..instance(4, "d") }),
        start_of(InstanceRow { schedule: Some("Nightly".to_string()), ..instance(5, "e") }),
    ];
    write(store, batch).await;
    for (number, compensation) in [(1, Compensation::Complete), (2, Compensation::Incomplete)] {
        let failed = InstanceWrite::Status {
            uid: uid(number),
            status: Status::Failed,
            outcome: Some(json("{}")),
            compensation: Some(compensation),
            error: None,
            closed_at: Some(at(9_000)),
        };
        write(store, [Step { instance: Some(failed), ..step() }]).await;
    }
    let all = InstanceFilter::default;
    let tag = |name: &str, value: &str| Some((name.to_string(), value.to_string()));
    let rome = InstanceFilter { tag: tag("city", "Rome"), ..all() };
    assert_eq!(listed(store, rome.clone()).await, ["c", "a"]);
    assert_eq!(listed(store, InstanceFilter { tag: tag("city", "rome"), ..all() }).await, [""; 0]);
    assert_eq!(listed(store, InstanceFilter { limit: 1, ..rome.clone() }).await, ["c"]);
    let scheduled = InstanceFilter { schedule: nightly, ..all() };
    assert_eq!(listed(store, scheduled.clone()).await, ["d", "c"]);
    let both = InstanceFilter { tag: rome.tag.clone(), ..scheduled };
    assert_eq!(listed(store, both).await, ["c"]);
    for (compensation, id) in [(Compensation::Complete, "a"), (Compensation::Incomplete, "b")] {
        let undone = InstanceFilter { compensation: Some(compensation), ..all() };
        assert_eq!(listed(store, undone.clone()).await, [id]);
        let open = InstanceFilter { status: vec![Status::Running], ..undone };
        assert_eq!(listed(store, open).await, [""; 0]);
    }
}

pub async fn a_list_is_read_page_by_page_while_more_are_started(store: &dyn Store) {
    let row = |number: u128, created_at: i64| {
        let tags = [("customer".to_string(), "ada".to_string())].into();
        let schedule = Some("nightly".to_string());
        let started = instance(number, &format!("order-{number}"));
        start_of(InstanceRow { tags, schedule, created_at: at(created_at), ..started })
    };
    // More of one moment than fit on a page, and some of every status.
    write(store, (1..=9).map(|number| row(number, 1_000)).collect::<Vec<Step>>()).await;
    write(store, (10..=12).map(|number| row(number, 2_000)).collect::<Vec<Step>>()).await;
    write(store, [close(2), close(5), set_status(7, Status::Failed), close(11)]).await;
    let (tag, nightly) = (("customer".to_string(), "ada".to_string()), "nightly".to_string());
    let filters = [
        InstanceFilter::default(),
        InstanceFilter { tag: Some(tag), ..InstanceFilter::default() },
        InstanceFilter { schedule: Some(nightly), ..InstanceFilter::default() },
        InstanceFilter { workflow: Some(instance(1, "").workflow), ..InstanceFilter::default() },
        InstanceFilter { status: vec![Status::Running, Status::Failed], ..Default::default() },
        InstanceFilter { status: vec![Status::Completed], ..InstanceFilter::default() },
    ];
    for (filter, newer) in filters.into_iter().zip(13_u32..) {
        let all = listed(store, filter.clone()).await;
        let mut pages: Vec<String> = Vec::new();
        let mut page = InstanceFilter { limit: 2, ..filter };
        loop {
            let rows = store.list(page.clone()).await.unwrap();
            let Some(last) = rows.last() else { break };
            page.after = Some(InstanceCursor::of(last));
            pages.extend(rows.into_iter().map(|row| row.id));
            if pages.len() == 2 {
                // One that comes meanwhile is on no page, and one that closes stays where it is.
                write(store, [row(newer.into(), 3_000 + i64::from(newer))]).await;
            }
        }
        assert_eq!(pages, all, "{page:?}");
    }
}

pub async fn a_page_behind_an_instance_that_is_gone_leaves_nothing_out(store: &dyn Store) {
    let twin = |number: u128, id: &str| {
        start_of(InstanceRow { created_at: at(1_000), ..instance(number, id) })
    };
    write(store, [twin(1, "a"), twin(2, "b"), twin(3, "c"), start(4, "d")]).await;
    write(store, [close(2)]).await;
    let gone = store.find("b").await.unwrap().unwrap();
    let behind = InstanceFilter { after: Some(InstanceCursor::of(&gone)), ..Default::default() };
    assert_eq!(listed(store, behind.clone()).await, ["a"]);
    let deletion = crate::Deletion::One(gone.uid);
    while store.delete_closed(deletion.clone()).await.unwrap().more {}
    // Which of its moment came before it nobody knows any more: all of them are listed.
    assert_eq!(listed(store, behind).await, ["c", "a"]);
}

pub async fn a_list_can_be_narrowed_to_what_was_started_since_a_time(store: &dyn Store) {
    let ada = ("customer".to_string(), "ada".to_string());
    let tagged = InstanceRow { tags: [ada.clone()].into(), ..instance(3, "c") };
    let steps = [start(1, "a"), start(2, "b"), start_of(tagged), start(4, "d")];
    write(store, steps).await;
    write(store, [close(2)]).await;
    let since = |time: i64| InstanceFilter { since: Some(at(time)), ..InstanceFilter::default() };
    assert_eq!(listed(store, since(2_000)).await, ["d", "c", "b"]);
    assert_eq!(listed(store, since(2_001)).await, ["d", "c"]);
    assert_eq!(listed(store, since(9_000)).await, [""; 0]);
    let closed = InstanceFilter { status: vec![Status::Completed], ..since(1_000) };
    assert_eq!(listed(store, closed).await, ["b"]);
    for (time, found) in [(3_000, vec!["c"]), (3_001, vec![])] {
        let tag = InstanceFilter { tag: Some(ada.clone()), ..since(time) };
        assert_eq!(listed(store, tag).await, found);
    }
    let last = store.find("d").await.unwrap().unwrap();
    let page = InstanceFilter { after: Some(InstanceCursor::of(&last)), ..since(2_000) };
    assert_eq!(listed(store, page.clone()).await, ["c", "b"]);
    let none = InstanceFilter { since: Some(at(9_000)), ..page };
    assert_eq!(listed(store, none).await, [""; 0]);
}

pub async fn instances_are_listed_by_what_their_ids_begin_with(store: &dyn Store) {
    let ids = ["order/2", "order/10", "order/ü", "Order/1", "orde", "order0"];
    for (number, id) in (1..).zip(ids) {
        write(store, [start(number, id)]).await;
    }
    let found = async |prefix: &str, after: Option<&str>, limit| {
        let rows = store.with_prefix(prefix, after, limit).await.unwrap();
        rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    assert_eq!(found("order/", None, 10).await, ["order/10", "order/2", "order/ü"]);
    assert_eq!(found("order/", None, 1).await, ["order/10"]);
    assert_eq!(found("order/", Some("order/10"), 10).await, ["order/2", "order/ü"]);
    assert_eq!(found("order/ü", None, 10).await, ["order/ü"]);
    assert_eq!(found("", Some("order/ü"), 10).await, ["order0"]);
    assert_eq!(found("x", None, 10).await, Vec::<String>::new());
}

pub async fn the_last_value_of_a_key_counts(store: &dyn Store) {
    write(store, [start(1, "order-1").put(1, "colour", json("\"red\""))]).await;
    write(store, [step().put(1, "colour", json("\"blue\""))]).await;
    let row = store.kv(uid(1), "colour").await.unwrap().unwrap();
    assert_eq!((row.uid, row.key.as_str()), (uid(1), "colour"));
    assert_eq!(row.value, json("\"blue\""));
}

pub async fn data_of_instances_is_apart(store: &dyn Store) {
    write(store, [start(1, "order-1").put(1, "colour", json("1"))]).await;
    write(store, [start(2, "order-2").put(2, "colour", json("2"))]).await;
    assert_eq!(store.kv(uid(1), "colour").await.unwrap().unwrap().value, json("1"));
    assert_eq!(store.kv(uid(2), "colour").await.unwrap().unwrap().value, json("2"));
    assert!(store.kv(uid(1), "size").await.unwrap().is_none());
}

pub async fn only_the_closed_ones_of_many_are_told(store: &dyn Store) {
    let ended = [Status::Completed, Status::Failed, Status::Cancelled, Status::Terminated];
    let started = (1..=6).map(|number| start(number, &format!("order-{number}")));
    write(store, started.collect::<Vec<Step>>()).await;
    write(store, [set_status(5, Status::Blocked)]).await;
    assert_eq!(closed(store, 1..=7).await, []);
    for (number, status) in (1..).zip(ended) {
        write(store, [set_status(number, status)]).await;
    }
    let told = (1..).zip(ended).map(|(number, status)| (format!("order-{number}"), status));
    assert_eq!(closed(store, 1..=7).await, told.collect::<Vec<_>>());
    assert_eq!(closed(store, 3..=5).await.len(), 2);
    assert_eq!(closed(store, 7..=7).await, []);

    let rows = store.closed(Arc::new([uid(2)])).await.unwrap();
    assert_eq!(rows, [store.instance(uid(2)).await.unwrap().unwrap()]);
    assert_eq!(store.closed(Arc::new([])).await.unwrap(), []);
}

pub async fn only_the_missing_ones_of_many_are_told(store: &dyn Store) {
    write(store, [start(1, "order-1"), start(2, "order-2")]).await;
    write(store, [close(2)]).await;
    let told = store.missing((1..=4).map(uid).collect()).await.unwrap();
    assert_eq!(told, [uid(3), uid(4)]);
    assert_eq!(store.missing(Arc::new([])).await.unwrap(), []);
}

async fn closed(store: &dyn Store, numbers: impl Iterator<Item = u128>) -> Vec<(String, Status)> {
    let mut rows = store.closed(numbers.map(uid).collect()).await.unwrap();
    rows.sort_by(|a, b| a.id.cmp(&b.id));
    rows.into_iter().map(|row| (row.id, row.status)).collect()
}

async fn listed(store: &dyn Store, filter: InstanceFilter) -> Vec<String> {
    let rows = store.list(filter).await.unwrap();
    rows.into_iter().map(|row| row.id).collect()
}
