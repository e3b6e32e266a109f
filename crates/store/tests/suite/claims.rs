//! Tasks that the holder of their shard leaves to others, and attempts that end their own call.

use std::sync::Arc;

use resurgam_core::{CallKey, Payload, RunKey, Seq, Shard, Timestamp, Uid};
use resurgam_store::model::{Model, Sharing};
use resurgam_store::rows::{Claim, Message, MessageRow, Owner, Progress, TaskRow};
use resurgam_store::{Node, Runnable, Step, TaskWrite};
use resurgam_watchdog::test;

const NOW: Timestamp = Timestamp::from_millis(1_000);

fn names(names: &[&str]) -> Option<Arc<[String]>> {
    Some(names.iter().map(|name| name.to_string()).collect())
}

fn join(model: &mut Model, name: &str, queues: Option<Arc<[String]>>) {
    let since = Timestamp::EPOCH;
    let process = Owner { node: name.into(), pid: 1, program: "test".into(), since };
    model.join(Node { queues, ..Node::new(name) }, process);
}

/// A holder of all shards that serves the queue `here`, and another node.
fn model() -> Model {
    let mut model = Model::new(Sharing::ManyNodes);
    join(&mut model, "holder", names(&["here"]));
    join(&mut model, "other", names(&["there"]));
    model.take("holder", Shard::all());
    model
}

fn call(seq: u64) -> CallKey {
    RunKey::first(Uid(1)).call(Seq(seq))
}

/// A task that waits and is due.
fn task(seq: u64, queue: &str) -> TaskRow {
    TaskRow {
        call: call(seq),
        name: "charge".into(),
        queue: queue.into(),
        gate: "charge".into(),
        priority: 0,
        policy: "p".into(),
        attempt: 0,
        wake_at: Timestamp::EPOCH,
        deadline_at: Some(NOW),
        claim: None,
        progress: Progress::default(),
        heartbeat: None,
    }
}

fn insert(model: &mut Model, tasks: impl IntoIterator<Item = TaskRow>) {
    let tasks = tasks.into_iter().map(TaskWrite::Insert).collect();
    model.commit(&[Step { tasks, ..Step::default() }]).unwrap();
}

/// Claims for the other node; the places of what it got, and when the next one is due.
fn claim(model: &mut Model, runnable: Runnable, limit: usize) -> (Vec<u64>, Option<Timestamp>) {
    let (claimed, next) = model.claim_shared("other", &runnable, NOW, limit, || 7).unwrap();
    (claimed.iter().map(|row| row.call.seq.0).collect(), next)
}

#[test]
fn a_task_that_its_holder_leaves_is_claimed_once_by_who_serves_its_queue() {
    let mut model = model();
    let later = TaskRow { wake_at: Timestamp::from_millis(2_000), ..task(4, "there") };
    insert(&mut model, [task(2, "there"), task(3, "here"), later, task(5, "nowhere")]);
    let served = Runnable { queues: names(&["there"]), ..Runnable::default() };
    let next = Some(Timestamp::from_millis(2_000));
    assert_eq!(claim(&mut model, served.clone(), 10), (vec![2], next));
    assert_eq!(claim(&mut model, served, 10), (vec![], next));
    let row = model.tasks_of(&[call(2)]).pop().unwrap();
    let expected = Claim { node: "other".into(), token: 7, started_at: NOW };
    assert_eq!((row.attempt, row.deadline_at, row.claim), (1, None, Some(expected)));
}

#[test]
fn the_most_urgent_of_what_is_left_is_claimed_first() {
    let mut model = model();
    let urgent = TaskRow { priority: 7, ..task(4, "b") };
    insert(&mut model, [task(2, "a"), task(3, "c"), urgent]);
    assert_eq!(claim(&mut model, Runnable::default(), 2).0, [4, 2]);
    assert_eq!(claim(&mut model, Runnable::default(), 2).0, [3]);
}

#[test]
fn a_task_that_lacks_something_is_claimed_by_who_has_it_and_by_nobody_else() {
    let mut model = model();
    let lacking = |seq, queue: &str| {
        let progress = Progress { lacks: Some("key".into()), ..Progress::default() };
        TaskRow { progress, ..task(seq, queue) }
    };
    insert(&mut model, [lacking(2, "here"), lacking(3, "there")]);
    let of = |provides: &[&str]| Runnable { provides: names(provides), ..Runnable::default() };
    assert_eq!(claim(&mut model, of(&[]), 10).0, [0; 0]);
    assert_eq!(claim(&mut model, of(&["key"]), 10).0, [2, 3]);
    assert_eq!(model.tasks_of(&[call(2)])[0].progress.lacks, None);
}

#[test]
fn one_call_can_be_claimed_by_its_key_unless_its_holder_serves_it() {
    let mut model = model();
    insert(&mut model, [task(2, "nowhere"), task(3, "here")]);
    let mut claim = |seq| model.claim_shared_call("other", call(seq), NOW, || 7).unwrap();
    assert_eq!(claim(2).map(|row| (row.attempt, row.progress.to_end)), Some((1, true)));
    assert_eq!((claim(2), claim(3), claim(9)), (None, None, None));
    assert!(model.tasks_of(&[call(2)])[0].progress.to_end);
}

#[test]
fn a_task_of_a_free_shard_is_left_alone_and_who_is_not_there_is_fenced() {
    let mut model = model();
    insert(&mut model, [task(2, "there")]);
    model.release("holder", Shard::all());
    assert_eq!(claim(&mut model, Runnable::default(), 10).0, [0; 0]);
    model.take("holder", Shard::all());
    model.leave("other");
    let claimed = model.claim_shared("other", &Runnable::default(), NOW, 10, || 7);
    assert!(claimed.unwrap_err().is_fenced());
}

#[test]
fn an_attempt_ends_its_call_while_the_task_carries_its_token() {
    let mut model = model();
    let claim = Some(Claim { node: "other".into(), token: 7, started_at: NOW });
    insert(&mut model, [TaskRow { claim, ..task(2, "there") }]);
    let body = Message::Signal { name: "done".into(), value: Payload::null() };
    let message = MessageRow { uid: Uid(1), id: "m".into(), due_at: NOW, body };
    let mut end = |node, token| model.end_claimed(node, call(2), token, &message);
    assert!(!end("other", 8).unwrap());
    assert!(end("nobody", 7).unwrap_err().is_fenced());
    assert!(end("other", 7).unwrap());
    assert!(!end("other", 7).unwrap());
    assert_eq!(model.messages(Uid(1)), [message]);
    assert_eq!(model.tasks_of(&[call(2)]), []);
}

#[test]
fn of_calls_that_may_kill_their_process_one_is_claimed_at_a_time_and_before_the_others() {
    let mut model = model();
    let poison = |seq, queue: &str| {
        let progress = Progress { poison: true, ..Progress::default() };
        TaskRow { progress, ..task(seq, queue) }
    };
    let later = TaskRow { wake_at: Timestamp::from_millis(2_000), ..poison(6, "there") };
    let left = [task(2, "there"), poison(3, "there"), poison(4, "there"), poison(5, "here"), later];
    insert(&mut model, left);
    let none = Runnable { no_poison: true, ..Runnable::default() };
    assert_eq!(claim(&mut model, none.clone(), 10), (vec![2], None));
    assert_eq!(claim(&mut model, Runnable::default(), 10), (vec![3], None));
    insert(&mut model, [task(7, "there")]);
    assert_eq!(claim(&mut model, Runnable::default(), 1), (vec![4], None));
    let next = Some(Timestamp::from_millis(2_000));
    assert_eq!(claim(&mut model, Runnable::default(), 10), (vec![7], next));
    assert_eq!(claim(&mut model, none, 10), (vec![], None));
}
