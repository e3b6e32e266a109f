//! Dead letters and paused calls are found by what they have in common; nothing of them is lost.

use resurgam_core::Failure;

use super::fixtures::*;
use crate::rows::{InstanceRow, Pause, TaskRow};
use crate::{
    CallCursor, CallGroup, DeadLetter, DeadLetterFilter, Deletion, LetterState, LetterWrite,
    PausedFilter, ROWS, Settled, Step, StepResult, Store,
};

fn keep(letters: impl IntoIterator<Item = DeadLetter>) -> Step {
    let letters = letters.into_iter().map(|letter| LetterWrite::Insert(Box::new(letter)));
    Step { letters: letters.collect(), ..step() }
}

fn settle(number: u128, state: LetterState, by: &str) -> Step {
    let settled = Settled { at: at(7), by: by.to_string(), reason: None, redriven_as: None };
    Step { letters: vec![LetterWrite::Settle { call: call(number, 2), state, settled }], ..step() }
}

async fn open(store: &dyn Store) -> Vec<DeadLetter> {
    store.dead_letters(DeadLetterFilter::default()).await.unwrap()
}

pub async fn a_dead_letter_comes_back_as_it_was(store: &dyn Store) {
    let mut row = letter(call(1, 2), 5);
    row.instance = "order ü".to_string();
    row.input = json(r#"{"text":"ü'\""}"#);
    row.failure = Failure::terminal("ü'\" given up").with_type("T").caused_by(Failure::new("x"));
    row.ledger = vec![failed_attempt(row.call, 1), failed_attempt(row.call, u32::MAX)];
    row.error = "T: ü <text>".to_string();
    write(store, [start(1, "order ü"), keep([row.clone()])]).await;
    row.workflow = instance(1, "order ü").workflow;
    assert_eq!(store.dead_letter(call(1, 2)).await.unwrap().as_ref(), Some(&row));
    assert_eq!(open(store).await, [row.clone()]);
    assert_eq!(store.dead_letter(call(1, 3)).await.unwrap(), None);

    let settled = Settled {
        at: at(9),
        by: "ana ü".to_string(),
        reason: Some("it \"works\" again".to_string()),
        redriven_as: Some("redrive/ü".to_string()),
    };
    let (call, state) = (call(1, 2), LetterState::Redriven);
    let write_it = LetterWrite::Settle { call, state, settled: settled.clone() };
    write(store, [Step { letters: vec![write_it], ..step() }]).await;
    let row = DeadLetter { state, settled: Some(settled), ..row };
    assert_eq!(store.dead_letter(call).await.unwrap(), Some(row.clone()));
    assert_eq!(open(store).await, []);
    let redriven = DeadLetterFilter { state, ..DeadLetterFilter::default() };
    assert_eq!(store.dead_letters(redriven).await.unwrap(), [row]);
}

pub async fn a_call_has_one_dead_letter(store: &dyn Store) {
    let first = letter(call(1, 2), 5);
    let second = DeadLetter { why: "terminal".to_string(), ..letter(call(1, 2), 6) };
    write(store, [start(1, "order-1"), keep([first.clone()]), keep([second.clone()])]).await;
    write(store, [keep([second])]).await;
    let found = open(store).await;
    assert_eq!(found.iter().map(|row| &*row.why).collect::<Vec<_>>(), [&*first.why]);
}

pub async fn a_letter_is_settled_once_and_a_later_decision_writes_nothing_of_its_step(
    store: &dyn Store,
) {
    use StepResult::{Missed, Written};
    let by = async |number| {
        let row = store.dead_letter(call(number, 2)).await.unwrap().unwrap();
        (row.state, row.settled.unwrap().by)
    };
    write(store, [start(1, "a"), keep([letter(call(1, 2), 5)])]).await;
    write(store, [settle(1, LetterState::Discarded, "ana")]).await;
    for state in [LetterState::Discarded, LetterState::Redriven] {
        // What comes with the decision is refused with it.
        let late = Step { letters: settle(1, state, "bob").letters, ..start(7, "as new") };
        assert_eq!(commit(store, [late]).await, [Missed]);
        assert_eq!(by(1).await, (LetterState::Discarded, "ana".to_string()));
        assert_eq!(store.instance(uid(7)).await.unwrap(), None);
    }
    // One that is not there; and two who decide in one batch about a letter that it writes.
    assert_eq!(commit(store, [settle(3, LetterState::Discarded, "eve")]).await, [Missed]);
    let letter = keep([letter(call(2, 2), 5)]);
    let (cleo, dora) = (LetterState::Redriven, LetterState::Discarded);
    let batch = [start(2, "b"), letter, settle(2, cleo, "cleo"), settle(2, dora, "dora")];
    assert_eq!(commit(store, batch).await, [Written, Written, Written, Missed]);
    assert_eq!(by(2).await, (LetterState::Redriven, "cleo".to_string()));
}

pub async fn of_several_letters_that_a_step_settles_each_must_be_open(store: &dyn Store) {
    use StepResult::{Missed, Written};
    let letters = [1, 2].map(|number| letter(call(number, 2), 5));
    write(store, [start(1, "a"), start(2, "b"), keep(letters)]).await;
    let both = |by: &str| {
        let [mut one, two] = [1, 2].map(|number| settle(number, LetterState::Discarded, by));
        one.letters.extend(two.letters);
        one
    };
    let mut twice = settle(1, LetterState::Discarded, "ana");
    twice.letters.extend(twice.letters.clone());
    assert_eq!(commit(store, [twice]).await, [Missed]);
    write(store, [settle(2, LetterState::Redriven, "bob")]).await;
    assert_eq!(commit(store, [both("cleo")]).await, [Missed]);
    assert_eq!(open(store).await.len(), 1);
    assert_eq!(commit(store, [settle(1, LetterState::Discarded, "cleo")]).await, [Written]);
}

pub async fn a_dead_letter_outlives_its_instance(store: &dyn Store) {
    write(store, [start(1, "order-1"), keep([letter(call(1, 2), 5)]), close(1)]).await;
    while store.delete_closed(Deletion::One(uid(1))).await.unwrap().more {}
    assert_eq!(store.instance(uid(1)).await.unwrap(), None);
    assert_eq!(open(store).await.len(), 1);
}

pub async fn letters_that_are_old_go_whatever_became_of_them(store: &dyn Store) {
    let letters = [(1, 10), (2, 20), (3, 30)].map(|(nth, at)| letter(call(nth, 2), at));
    write(store, [start(1, "a"), start(2, "b"), start(3, "c"), keep(letters)]).await;
    write(store, [settle(1, LetterState::Discarded, "ana")]).await;
    let delete = async |before| {
        let done = store.delete_closed(Deletion::Letters { before: at(before) }).await.unwrap();
        assert_eq!((done.instances, done.more), (0, false));
        (done.rows, done.next)
    };
    assert_eq!(store.oldest_dead_letter().await.unwrap(), Some(at(10)));
    assert_eq!(delete(10).await, (0, Some(at(10))));
    assert_eq!(delete(30).await, (2, Some(at(30))));
    assert_eq!(open(store).await.len(), 1);
    assert_eq!(delete(31).await, (1, None));
    assert_eq!(delete(i64::MAX).await, (0, None));
    assert_eq!(store.oldest_dead_letter().await.unwrap(), None);

    // More than a piece deletes.
    let many = (0..ROWS + 2).map(|seq| letter(call(1, seq + 2), 40));
    for part in many.collect::<Vec<_>>().chunks(1_000) {
        write(store, [keep(part.iter().cloned())]).await;
    }
    let wanted = Deletion::Letters { before: at(41) };
    let first = store.delete_closed(wanted.clone()).await.unwrap();
    assert_eq!((first.rows, first.more), (ROWS, true));
    let second = store.delete_closed(wanted).await.unwrap();
    assert_eq!((second.rows, second.more), (2, false));
}

pub async fn letters_are_read_page_by_page_the_newest_first(store: &dyn Store) {
    // Three of each moment, so that a page ends among them.
    let letters = (0..30).map(|nth| letter(call(1, nth + 2), 100 + (nth / 3).cast_signed()));
    let letters: Vec<DeadLetter> = letters.collect();
    write(store, [start(1, "order-1"), keep(letters.clone())]).await;
    let page = async |after| {
        let filter = DeadLetterFilter { after, limit: 4, ..DeadLetterFilter::default() };
        store.dead_letters(filter).await.unwrap()
    };
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let rows = page(after).await;
        let filter = DeadLetterFilter { after, limit: 4, ..DeadLetterFilter::default() };
        let places = store.dead_letter_places(filter).await.unwrap();
        assert_eq!(places, rows.iter().map(CallCursor::of_letter).collect::<Vec<_>>());
        let Some(last) = rows.last() else { break };
        after = Some(CallCursor::of_letter(last));
        found.extend(rows.iter().map(|row| row.call));
    }
    let expected: Vec<_> = letters.iter().rev().map(|row| row.call).collect();
    assert_eq!(found, expected);
    let since = DeadLetterFilter { since: Some(at(108)), ..DeadLetterFilter::default() };
    assert_eq!(store.dead_letters(since).await.unwrap().len(), 6);
}

pub async fn letters_are_grouped_by_their_fingerprints(store: &dyn Store) {
    let of = |seq, time, fingerprint: &str, activity: &str| DeadLetter {
        fingerprint: fingerprint.to_string(),
        activity: activity.to_string(),
        error: format!("error of {fingerprint}"),
        ..letter(call(1, seq), time)
    };
    let letters = [
        of(2, 10, "1:aa", "charge"),
        of(3, 30, "1:bb", "charge"),
        of(4, 20, "1:bb", "charge"),
        of(5, 40, "1:cc", "refund"),
    ];
    write(store, [start(1, "order-1"), keep(letters)]).await;
    let groups = async |filter| store.dead_letter_groups(filter).await.unwrap();
    let group = |fingerprint: &str, activity: &str, count, oldest, newest, seq| CallGroup {
        fingerprint: fingerprint.to_string(),
        activity: activity.to_string(),
        error: format!("error of {fingerprint}"),
        count,
        oldest: at(oldest),
        newest: at(newest),
        example: call(1, seq),
        instance: "order-1".to_string(),
    };
    let [aa, bb, cc] = [
        group("1:aa", "charge", 1, 10, 10, 2),
        group("1:bb", "charge", 2, 20, 30, 3),
        group("1:cc", "refund", 1, 40, 40, 5),
    ];
    let all = DeadLetterFilter::default;
    assert_eq!(groups(all()).await, [bb.clone(), aa.clone(), cc.clone()]);
    let refunds = DeadLetterFilter { activity: Some("refund".to_string()), ..all() };
    assert_eq!(groups(refunds).await, [cc]);
    let one = DeadLetterFilter { fingerprint: Some("1:bb".to_string()), ..all() };
    assert_eq!(groups(one.clone()).await, [bb]);
    assert_eq!(store.dead_letters(one).await.unwrap().len(), 2);
    let late = DeadLetterFilter { since: Some(at(25)), ..all() };
    let counts: Vec<u64> = groups(late).await.iter().map(|group| group.count).collect();
    assert_eq!(counts, [1, 1]);
    assert_eq!(groups(DeadLetterFilter { state: LetterState::Discarded, ..all() }).await, []);
}

pub async fn letters_are_found_by_what_they_failed_with_and_where(store: &dyn Store) {
    let of = |uid, seq, time, type_name: &str, code: &str| {
        let mut failure = Failure::of_type(type_name, "no").with_code(code);
        failure.mro = vec!["Trouble".to_string()];
        let fingerprint = format!("1:{type_name}");
        DeadLetter { failure, fingerprint, ..letter(call(uid, seq), time) }
    };
    let other = start_of(InstanceRow { workflow: "refund".into(), ..instance(2, "order-2") });
    let (instance, queue) = ("order-2".to_string(), "slow".to_string());
    let queued = DeadLetter { instance, queue, ..of(2, 5, 50, "BankDown", "E7") };
    // More than are looked at in one go stand before the last one that matches.
    let many = (0..2_100).map(|nth| of(1, 100 + nth, 100, "CardStolen", "E1"));
    let few = [of(1, 2, 10, "BankDown", "E7"), of(1, 3, 20, "BankDown", "E8"), queued];
    write(store, [start(1, "order-1"), other]).await;
    for part in many.chain(few).collect::<Vec<_>>().chunks(500) {
        write(store, [keep(part.iter().cloned())]).await;
    }
    let all = DeadLetterFilter::default;
    let of_type = |name: &str| DeadLetterFilter { failure_type: Some(name.to_string()), ..all() };
    let coded = |code: &str| DeadLetterFilter { failure_code: Some(code.to_string()), ..all() };
    let of_workflow = |name: &str| DeadLetterFilter { workflow: Some(name.into()), ..all() };
    let on_queue = |name: &str| DeadLetterFilter { queue: Some(name.to_string()), ..all() };
    let with_ids = |ids: &[&str]| DeadLetterFilter {
        ids: ids.iter().map(ToString::to_string).collect(),
        ..all()
    };
    let seqs = async |filter: DeadLetterFilter| {
        let letters = store.dead_letters(filter.clone()).await.unwrap();
        let places = store.dead_letter_places(filter).await.unwrap();
        assert_eq!(places, letters.iter().map(CallCursor::of_letter).collect::<Vec<_>>());
        letters.iter().map(|letter| letter.call.seq.0).collect::<Vec<_>>()
    };
    assert_eq!(seqs(of_type("BankDown")).await, [5, 3, 2]);
    assert_eq!(seqs(DeadLetterFilter { limit: 2, ..of_type("BankDown") }).await, [5, 3]);
    assert_eq!(seqs(of_type("Trouble")).await.len(), 100, "it descends from that");
    assert_eq!(seqs(coded("E7")).await, [5, 2]);
    assert_eq!(seqs(of_workflow("refund")).await, [5]);
    assert_eq!(seqs(on_queue("slow")).await, [5]);
    assert_eq!(seqs(with_ids(&["order-2", "none"])).await, [5]);
    assert_eq!(seqs(DeadLetterFilter { since: Some(at(20)), ..coded("E7") }).await, [5]);
    assert_eq!(seqs(DeadLetterFilter { ids: vec!["order-1".into()], ..coded("E8") }).await, [3]);
    let after = store.dead_letter_places(coded("E7")).await.unwrap().first().copied();
    assert_eq!(seqs(DeadLetterFilter { after, ..coded("E7") }).await, [2]);
    let counts = async |filter| {
        let groups = store.dead_letter_groups(filter).await.unwrap();
        groups.iter().map(|it| (it.count, it.example.seq.0)).collect::<Vec<_>>()
    };
    assert_eq!(counts(of_type("BankDown")).await, [(3, 5)]);
    assert_eq!(counts(coded("E7")).await, [(2, 5)]);
    assert_eq!(counts(of_type("Trouble")).await, [(2_100, 2_199), (3, 5)]);
    assert_eq!(counts(with_ids(&["none"])).await, []);
}

/// A task that is paused since this time.
fn paused(seq: u64, since: i64, fingerprint: Option<&str>) -> TaskRow {
    let mut task = task(call(1, seq));
    task.wake_at = TaskRow::NEVER;
    task.progress.paused = Some(Box::new(Pause {
        since: Some(at(since)),
        fingerprint: fingerprint.map(str::to_string),
        error: fingerprint.map(|of| format!("error of {of}")),
        ..Pause::default()
    }));
    task
}

pub async fn paused_calls_are_found_and_grouped(store: &dyn Store) {
    let begin = start(1, "order-1")
        .insert(task(call(1, 2)))
        .insert(paused(3, 10, Some("1:aa")))
        .insert(paused(4, 30, Some("1:aa")))
        .insert(paused(5, 20, None));
    write(store, [begin]).await;
    let calls = async |filter| {
        let found = store.paused_calls(filter).await.unwrap();
        assert!(found.iter().all(|call| call.instance == "order-1"));
        found.into_iter().map(|call| call.task.call.seq.0).collect::<Vec<_>>()
    };
    let all = PausedFilter::default;
    assert_eq!(calls(all()).await, [4, 5, 3]);
    assert_eq!(store.paused_count().await.unwrap(), 3);
    assert_eq!(calls(PausedFilter { limit: 1, ..all() }).await, [4]);
    let after = Some(CallCursor { at: at(30), call: call(1, 4) });
    assert_eq!(calls(PausedFilter { after, ..all() }).await, [5, 3]);
    let one = PausedFilter { fingerprint: Some("1:aa".to_string()), ..all() };
    assert_eq!(calls(one.clone()).await, [4, 3]);
    assert_eq!(calls(PausedFilter { after, ..one.clone() }).await, [3]);
    assert_eq!(calls(PausedFilter { since: Some(at(20)), ..all() }).await, [4, 5]);
    assert_eq!(calls(PausedFilter { activity: Some("x".to_string()), ..all() }).await, [0; 0]);

    let groups = store.paused_groups(all()).await.unwrap();
    let told = |group: &CallGroup| {
        (group.fingerprint.clone(), group.error.clone(), group.count, group.example.seq.0)
    };
    let expected = [
        ("1:aa".to_string(), "error of 1:aa".to_string(), 2, 4),
        ("0:unknown".to_string(), String::new(), 1, 5),
    ];
    assert_eq!(groups.iter().map(told).collect::<Vec<_>>(), expected);
    assert_eq!((groups[0].oldest, groups[0].newest), (at(10), at(30)));
    assert_eq!(store.paused_groups(one).await.unwrap().len(), 1);
}

pub async fn a_call_that_goes_on_is_no_longer_among_the_paused(store: &dyn Store) {
    write(store, [start(1, "order-1").insert(paused(2, 10, Some("1:aa")))]).await;
    write(store, [step().update(task(call(1, 2)))]).await;
    assert_eq!(store.paused_calls(PausedFilter::default()).await.unwrap(), []);
    assert_eq!(store.paused_groups(PausedFilter::default()).await.unwrap(), []);
    write(store, [step().update(paused(2, 20, Some("1:bb")))]).await;
    assert_eq!(store.paused_calls(PausedFilter::default()).await.unwrap().len(), 1);
    write(store, [step().delete(call(1, 2))]).await;
    assert_eq!(store.paused_groups(PausedFilter::default()).await.unwrap(), []);
}
