//! What stands before dependencies: what is stored of gates and of paused kinds, and tasks found by
//! the gates that they are behind.

use std::sync::Arc;

use super::fixtures::*;
use resurgam_core::{CallKey, Timestamp};

use crate::rows::{DueTask, Progress, TaskRow};
use crate::{
    ByHand, GateCount, GateRow, GateScope, GateWaiting, GateWrite, HandState, Hold, HoldKind, Node,
    Owning, PausedKinds, Runnable, Step, Store, StoredSettings,
};

fn writes<const N: usize>(gates: [GateWrite; N]) -> Step {
    Step { gates: gates.into(), ..Step::default() }
}

fn settings(text: Option<&str>) -> StoredSettings {
    StoredSettings {
        text: text.map(str::to_string),
        by: "ana".to_string(),
        reason: text.map(|_| "a \"reason\"".to_string()),
        at: at(7),
    }
}

fn hand(state: HandState) -> ByHand {
    let until = (state == HandState::Shut).then(|| at(90));
    ByHand { state, by: "ben".to_string(), reason: None, at: at(8), until }
}

fn set(key: &str, text: Option<&str>) -> GateWrite {
    GateWrite::Set { key: key.to_string(), settings: settings(text) }
}

fn by_hand(key: &str, state: HandState) -> GateWrite {
    GateWrite::Hand { key: key.to_string(), hand: hand(state) }
}

fn decide(key: &str, decided: &str) -> GateWrite {
    GateWrite::Decide { key: key.to_string(), decided: decided.to_string() }
}

fn forget(key: &str) -> GateWrite {
    GateWrite::Forget { key: key.to_string() }
}

pub async fn what_is_stored_of_a_gate_comes_back_part_by_part(store: &dyn Store) {
    assert_eq!(store.gates().await.unwrap().gates, []);
    write(store, [writes([set("b", Some("{}")), decide("a", "1 shut")])]).await;
    write(store, [writes([by_hand("b", HandState::Shut), decide("b", "1 ramping")])]).await;
    let both = GateRow {
        settings: Some(settings(Some("{}"))),
        hand: Some(hand(HandState::Shut)),
        decided: Some("1 ramping".to_string()),
        revision: 3,
        ..GateRow::new("b")
    };
    let decided = |text: &str| Some(text.to_string());
    let one = GateRow { decided: decided("1 shut"), revision: 1, ..GateRow::new("a") };
    assert_eq!(store.gates().await.unwrap().gates, [one.clone(), both.clone()]);
    // Several changes of a batch, and of a step, are made one after the other.
    let twice = writes([decide("b", "1 x"), decide("b", "1 y"), by_hand("b", HandState::Auto)]);
    write(store, [twice, writes([set("b", None)])]).await;
    let both = GateRow {
        settings: Some(settings(None)),
        hand: Some(hand(HandState::Auto)),
        decided: decided("1 y"),
        revision: 7,
        ..both
    };
    assert_eq!(store.gates().await.unwrap().gates, [one, both]);
}

pub async fn what_was_decided_goes_and_what_an_operator_set_stays(store: &dyn Store) {
    let all = ["decided", "set", "shut", "unset", "auto"];
    let decided = all.map(|key| decide(key, "1 shut"));
    let (shut, auto) = (by_hand("shut", HandState::Shut), by_hand("auto", HandState::Auto));
    let by_operators = [set("set", Some("{}")), set("unset", None), shut, auto];
    write(store, [writes(decided), writes(by_operators)]).await;
    write(store, [writes(all.map(forget)), writes([forget("unheard of")])]).await;
    let left = store.gates().await.unwrap().gates;
    assert_eq!(left.iter().map(|gate| &*gate.key).collect::<Vec<_>>(), ["set", "shut"]);
    // What is forgotten and decided again begins anew.
    write(store, [writes([forget("decided"), decide("decided", "1 shut")])]).await;
    let anew = store.gates().await.unwrap().gates;
    assert_eq!(anew.iter().map(|gate| gate.revision).collect::<Vec<_>>(), [1, 2, 2]);
}

fn count(gate: &str, time: i64, node: &str, counts: &str) -> GateCount {
    let (gate, node) = (gate.to_string(), node.to_string());
    GateCount { gate, at: at(time), node, counts: counts.to_string() }
}

pub async fn what_nodes_count_is_kept_by_gate_second_and_node(store: &dyn Store) {
    let counted = |gate, time, node, counts| GateWrite::Count(count(gate, time, node, counts));
    let step = writes([
        counted("b", 1_000, "node-a", "1"),
        counted("a", 2_000, "node-b", "2"),
        counted("a", 2_000, "node-a", "3"),
        counted("a", 1_000, "node-a", "4"),
    ]);
    write(store, [step]).await;
    write(store, [writes([counted("a", 2_000, "node-b", "5")])]).await;
    let all = [
        count("a", 1_000, "node-a", "4"),
        count("a", 2_000, "node-a", "3"),
        count("a", 2_000, "node-b", "5"),
        count("b", 1_000, "node-a", "1"),
    ];
    assert_eq!(store.gate_counts(at(0)).await.unwrap(), all);
    assert_eq!(store.gate_counts(at(2_000)).await.unwrap(), all[1..3]);
    let old = writes([GateWrite::ForgetCounts { before: at(2_000) }]);
    write(store, [old, writes([counted("b", 500, "node-a", "6")])]).await;
    let left = [all[1].clone(), all[2].clone(), count("b", 500, "node-a", "6")];
    assert_eq!(store.gate_counts(at(0)).await.unwrap(), left);
}

pub async fn what_is_paused_is_kept_until_it_is_released(store: &dyn Store) {
    let hold = |kind, name: &str, by: &str| Hold {
        kind,
        name: name.to_string(),
        by: by.to_string(),
        reason: (by == "ana").then(|| "a \"reason\"".to_string()),
        since: at(7),
    };
    let (activity, queue) = (HoldKind::Activity, HoldKind::Queue);
    let first = [hold(queue, "a", "ana"), hold(activity, "b", "ana"), hold(activity, "a", "ana")];
    write(store, [writes(first.clone().map(GateWrite::Hold))]).await;
    write(store, [writes([GateWrite::Hold(hold(activity, "a", "ben"))])]).await;
    let [on_queue, on_b, _] = first;
    let on_a = hold(activity, "a", "ben");
    assert_eq!(store.gates().await.unwrap().holds, [on_a, on_b.clone(), on_queue]);
    let release = |kind, name: &str| GateWrite::Release { kind, name: name.to_string() };
    write(store, [writes([release(queue, "a"), release(activity, "a"), release(queue, "b")])])
        .await;
    assert_eq!(store.gates().await.unwrap().holds, [on_b]);
}

pub async fn only_an_owner_decides_about_gates(store: &dyn Store) {
    let Owning::Taken(right) = store.try_own(Node::new("node-a")).await.unwrap() else {
        panic!("somebody else owns it")
    };
    write(store, [writes([decide("a", "1 shut"), forget("b")])]).await;
    drop(right);
    store.disown().await.unwrap();
    for decides in [decide("a", "1 flowing"), forget("a")] {
        let error = store.commit([writes([decides])].into()).await.unwrap_err();
        assert!(error.is_fenced(), "{error}");
    }
    write(store, [writes([set("a", Some("{}")), by_hand("a", HandState::Open)])]).await;
    assert_eq!(store.gates().await.unwrap().gates[0].decided.as_deref(), Some("1 shut"));
}

/// A task of instance 1 that is due at this time behind this gate.
fn behind(gate: &str, seq: u64, wake_at: i64) -> TaskRow {
    TaskRow { gate: gate.to_string(), wake_at: at(wake_at), ..task(call(1, seq)) }
}

/// Four tasks behind each of three gates, due in turns: those of `a` at 1, 4, 7 and 10. One behind
/// each is claimed, and one is paused.
async fn three_gates(store: &dyn Store) {
    let mut step = start(1, "order-1");
    for (number, gate) in ["a", "b", "c"].into_iter().enumerate() {
        let number = number as u64;
        for place in 0..4 {
            let seq = 2 + number * 10 + place;
            step = step.insert(behind(gate, seq, (1 + number + 3 * place).cast_signed()));
        }
        let claimed = TaskRow { claim: claim("node-a"), ..behind(gate, 8 + number * 10, 0) };
        let paused = behind(gate, 9 + number * 10, TaskRow::NEVER.as_millis());
        step = step.insert(claimed).insert(paused);
    }
    write(store, [step]).await;
}

async fn due(store: &dyn Store, gates: GateScope, before: i64, limit: usize) -> Vec<DueTask> {
    let runnable = Runnable { gates, ..Runnable::default() };
    store.due_tasks(runnable, at(before), limit).await.unwrap()
}

fn times(due: &[DueTask]) -> Vec<i64> {
    due.iter().map(|task| task.wake_at.as_millis()).collect()
}

fn except<const N: usize>(gates: [&str; N]) -> GateScope {
    GateScope::Except(gates.map(str::to_string).into())
}

fn only<const N: usize>(gates: [(&str, usize); N]) -> GateScope {
    GateScope::Only(gates.map(|(gate, most)| (gate.to_string(), most)).into())
}

pub async fn tasks_behind_a_gate_that_is_left_out_are_not_due(store: &dyn Store) {
    three_gates(store).await;
    let found = due(store, except(["b"]), 1_000, 100).await;
    assert_eq!(times(&found), [1, 3, 4, 6, 7, 9, 10, 12]);
    assert!(found.iter().all(|task| task.gate != "b"), "{found:?}");
    assert_eq!(times(&due(store, except(["a", "c"]), 9, 100).await), [2, 5, 8]);
    assert!(due(store, except(["a", "b", "c"]), 1_000, 100).await.is_empty());
    assert_eq!(times(&due(store, except(["unheard of"]), 4, 100).await), [1, 2, 3]);
}

pub async fn tasks_of_many_gates_come_earliest_first(store: &dyn Store) {
    let mut step = start(1, "order-1").insert(behind("shut", 2, 0));
    for number in 0..60_u64 {
        let gate = format!("gate-{}", number * 7 % 11);
        step = step.insert(behind(&gate, 3 + number, (number * 37 % 60).cast_signed()));
    }
    write(store, [step]).await;
    for limit in [1, 2, 7, 59, 60, 61] {
        let found = due(store, except(["shut"]), 1_000, limit).await;
        let expected: Vec<i64> = (0..60).take(limit).collect();
        assert_eq!(times(&found), expected, "{limit}");
    }
    assert_eq!(times(&due(store, except(["shut"]), 5, 100).await), [0, 1, 2, 3, 4]);
}

pub async fn of_the_gates_that_are_named_only_so_many_are_due(store: &dyn Store) {
    three_gates(store).await;
    let found = due(store, only([("a", 2), ("c", 1), ("unheard of", 9)]), 1_000, 100).await;
    assert_eq!(times(&found), [1, 3, 4]);
    assert_eq!(times(&due(store, only([("b", 9)]), 8, 100).await), [2, 5]);
    assert_eq!(times(&due(store, only([("a", 9), ("b", 9)]), 1_000, 3).await), [1, 2, 4]);
    assert!(due(store, only([("a", 0)]), 1_000, 100).await.is_empty());
    assert!(due(store, only([]), 1_000, 100).await.is_empty());
    // What nobody here can run does not stand in front of what somebody can.
    let queues: Arc<[String]> = Arc::new(["elsewhere".to_string()]);
    let here = TaskRow { queue: "elsewhere".to_string(), ..behind("a", 99, 50) };
    write(store, [step().insert(here)]).await;
    for gates in [only([("a", 1)]), except(["b"]), GateScope::All] {
        let queues = Some(queues.clone());
        let runnable = Runnable { gates, queues, ..Runnable::default() };
        let found = store.due_tasks(runnable, at(1_000), 1).await.unwrap();
        assert_eq!(times(&found), [50]);
    }
}

pub async fn a_paused_kind_is_not_due(store: &dyn Store) {
    let refund = TaskRow { name: "refund".to_string(), ..behind("a", 2, 1) };
    let elsewhere = TaskRow { queue: "elsewhere".to_string(), ..behind("b", 3, 2) };
    write(store, [start(1, "order-1").insert(refund).insert(elsewhere).insert(behind("a", 4, 3))])
        .await;
    let names = |name: &str| -> Arc<[String]> { Arc::new([name.to_string()]) };
    let activity = || PausedKinds { activities: names("refund"), ..PausedKinds::default() };
    let queue = || PausedKinds { queues: names("elsewhere"), ..PausedKinds::default() };
    let both = PausedKinds { queues: names("elsewhere"), ..activity() };
    for (paused, expected) in [(activity(), vec![2, 3]), (queue(), vec![1, 3]), (both, vec![3])] {
        for gates in [GateScope::All, except(["c"]), only([("a", 9), ("b", 9)])] {
            let runnable = Runnable { gates, paused: paused.clone(), ..Runnable::default() };
            let found = store.due_tasks(runnable, at(1_000), 100).await.unwrap();
            assert_eq!(times(&found), expected, "{paused:?}");
        }
    }
}

pub async fn the_gates_that_tasks_wait_behind_are_found_page_by_page(store: &dyn Store) {
    assert_eq!(store.waiting_gates("", 2).await.unwrap(), <[String; 0]>::default());
    three_gates(store).await;
    // What runs waits behind no gate.
    let running = TaskRow { claim: claim("node-a"), ..task(call(2, 2)) };
    let other = TaskRow { gate: "a\u{e9}".to_string(), ..task(call(2, 3)) };
    write(store, [start(2, "order-2").insert(running).insert(other)]).await;
    assert_eq!(store.waiting_gates("", 3).await.unwrap(), ["a", "a\u{e9}", "b"]);
    assert_eq!(store.waiting_gates("b", 3).await.unwrap(), ["c"]);
    assert_eq!(store.waiting_gates("bb", 3).await.unwrap(), ["c"]);
    assert_eq!(store.waiting_gates("c", 3).await.unwrap(), <[String; 0]>::default());
}

pub async fn those_that_wait_behind_a_gate_are_counted_so_far(store: &dyn Store) {
    three_gates(store).await;
    let gates: Arc<[String]> = ["c", "a", "unheard of"].map(str::to_string).into();
    let counted = |before, at_most| store.count_waiting(gates.clone(), at(before), at_most);
    let of = |gate: &str, due, first: Option<i64>| {
        let first = first.map(Timestamp::from_millis);
        GateWaiting { gate: gate.to_string(), due, first }
    };
    let none = of("unheard of", 0, None);
    let expected = [of("c", 2, Some(3)), of("a", 3, Some(1)), none.clone()];
    assert_eq!(counted(9, 100).await.unwrap(), expected);
    let expected = [of("c", 2, Some(3)), of("a", 2, Some(1)), none.clone()];
    assert_eq!(counted(i64::MAX, 2).await.unwrap(), expected);
    let expected = [of("c", 0, Some(3)), of("a", 0, Some(1)), none];
    assert_eq!(counted(1, 100).await.unwrap(), expected);
    // One whose only calls run or are paused has nobody waiting.
    let calls: Vec<CallKey> = (2..6).map(|seq| call(1, seq)).collect();
    write(store, [calls.into_iter().fold(step(), |step, call| step.delete(call))]).await;
    assert_eq!(counted(1_000, 100).await.unwrap()[1], of("a", 0, None));
}

pub async fn who_claims_a_task_to_probe_says_so_and_others_do_not(store: &dyn Store) {
    let Owning::Taken(_right) = store.try_own(Node::new("node-a")).await.unwrap() else {
        panic!("somebody else owns it")
    };
    let provides: Arc<[String]> = Arc::new(["a key".to_string()]);
    // What the holder of its shard cannot run is claimed by whoever can, the holder itself, too.
    let lacking = |seq, probing| {
        let lacks = Some("a key".to_string());
        let progress = Progress { v: 1, lacks, probing, ..Progress::default() };
        TaskRow { progress, ..behind("a", seq, 1) }
    };
    write(store, [start(1, "order-1")]).await;
    for (seq, probing) in [(2, true), (3, false)] {
        write(store, [step().insert(lacking(seq, !probing))]).await;
        let provides = Some(provides.clone());
        let runnable = Runnable { provides, probing, ..Runnable::default() };
        let found = store.due_tasks(runnable.clone(), at(9), 10).await.unwrap();
        let (claimed, _) = store.claim_shared("node-a", runnable, at(9), 10).await.unwrap();
        // Where one node works nothing is left to others: it is due like anything else.
        assert_eq!((found.len(), claimed.len()), if store.is_shared() { (0, 1) } else { (1, 0) });
        let is_new = |row: &&TaskRow| row.call == call(1, seq);
        let stored = store.tasks(run(1)).await.unwrap();
        let row = stored.iter().find(is_new).unwrap();
        let expected = if store.is_shared() { probing } else { !probing };
        assert_eq!(row.progress.probing, expected);
        assert!(claimed.iter().all(|row| row.progress.probing == probing));
        write(store, [step().delete(call(1, seq))]).await;
    }
}
