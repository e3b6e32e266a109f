//! Operators who act on calls that another node may run, and on runs, at bad moments.

use resurgam_core::action::{Action, RedriveCall, Reset, ResetTo};
use resurgam_core::event::ActivityCompleted;
use resurgam_core::retry::RetryPolicy;
use resurgam_core::{CallKey, Seq};
use resurgam_store::rows::{ActionRequest, Claim, InstanceRow, MessageRow, Status, TaskRow};
use resurgam_store::{
    DeadLetter, Deletion, InstanceWrite, LetterState, LetterWrite, Replaces, Reported, Retain,
    Runnable, Settled, Transacted, Work,
};
use resurgam_watchdog::test;

use super::remote::{Other, holder};
use super::*;
use crate::handle::Started;
use crate::node::{InstanceActions, result_id};

impl World {
    /// Somebody asks for something to be done to the first call of an instance.
    pub(super) fn act(&mut self, uid: Uid, action: Action) -> CallKey {
        self.act_on(RunKey::first(uid).call(Seq(2)), action)
    }

    fn act_on(&mut self, call: CallKey, action: Action) -> CallKey {
        let (id, by) = (format!("ticket-{}", self.asked), "ana".to_string());
        let request = Box::new(ActionRequest { id, by, reason: None, action });
        let reply = self.reply(|told: Result<()>| told.unwrap());
        self.ask(Request::Act { call, request, reply });
        self.settle();
        call
    }

    fn answers(&self, uid: Uid) -> Vec<String> {
        let actions = at_once(self.store.actions(RunKey::first(uid))).unwrap();
        actions.into_iter().map(|row| row.answer.text).collect()
    }
}

fn claims_to_act(read: &StoreRequest) -> bool {
    matches!(read, StoreRequest::ClaimToAct { .. })
}

fn pause() -> Action {
    Action::Pause { clock_runs: false }
}

#[test]
fn a_call_that_others_may_run_is_claimed_before_somebody_acts_on_it() {
    let mut world = holder();
    let other = Other::join(&world);
    let uid = world.start("send", "send-1".to_string());
    world.holds.found = Some(claims_to_act);
    world.act(uid, pause());
    let others = other.store.claim_shared(Other::NAME, Runnable::default(), world.now, 10);
    assert_eq!(at_once(others).unwrap().0, [], "it is the holder's until that is decided");
    world.let_go();
    let task = world.tasks(uid).remove(0);
    assert_eq!((task.claim.is_none(), task.wake_at), (true, TaskRow::NEVER));
    assert_eq!((task.attempt, task.progress.lost), (0, 0), "no attempt was lost");
    assert_eq!(world.answers(uid), ["paused mail#2 (attempt 1 is due now)"]);
    world.act(uid, Action::Resume { reset: false, due: None });
    let task = other.claim(world.now);
    other.report(&task, Reported::Completed(Payload::null()));
    world.hears();
    assert_eq!(world.answers(uid).len(), 2);
    assert!(world.messages(uid).is_empty(), "{:?}", world.messages(uid));
}

#[test]
fn an_action_that_is_refused_leaves_the_call_to_others() {
    let mut world = holder();
    let other = Other::join(&world);
    let uid = world.start("send", "send-1".to_string());
    world.act(uid, Action::Resume { reset: false, due: None });
    assert_eq!(world.answers(uid), ["mail#2 is not paused; nothing to resume"]);
    assert_eq!(other.claim(world.now).attempt, 1);
}

#[test]
fn a_call_that_another_node_takes_first_runs_when_somebody_acts_on_it() {
    let mut world = holder();
    let other = Other::join(&world);
    let uid = world.start("send", "send-1".to_string());
    world.holds.reads = Some(claims_to_act);
    world.act(uid, Action::Retry { reset: false, due: None });
    let task = other.claim(world.now);
    world.let_go();
    assert_eq!(world.answers(uid), ["mail#2 is running attempt 1; nothing to retry"]);
    world.act(uid, pause());
    other.report(&task, Reported::Failed(Failure::retryable("the network is down")));
    world.hears();
    assert_eq!(world.tasks(uid)[0].wake_at, TaskRow::NEVER, "{:?}", world.answers(uid));
    let failures = world.tasks(uid)[0].progress.failures;
    assert_eq!(failures, 1, "the failure counts, and then it is paused");
}

#[test]
fn a_call_whose_shard_goes_while_it_is_claimed_to_act_on_it_is_handed_back() {
    let mut world = holder();
    let uid = world.start("send", "send-1".to_string());
    world.holds.found = Some(claims_to_act);
    world.act(uid, pause());
    world.gives(uid.shard());
    world.let_go();
    let never_began = |message: &MessageRow| match &message.body {
        StoredMessage::Report { report, .. } => report.outcome == Reported::NeverBegan,
        _ => false,
    };
    let messages = world.messages(uid);
    assert!(messages.iter().any(never_began), "{messages:?}");
    let asks = |message: &MessageRow| matches!(message.body, StoredMessage::Action { .. });
    assert!(messages.iter().any(asks), "the next holder carries it out: {messages:?}");
}

#[test]
fn who_asks_for_what_the_store_refuses_hears_of_it() {
    let mut world = holder();
    let other = Other::join(&world);
    let uid = world.start("send", "send-1".to_string());
    other.claim(world.now);
    world.holds.refuses = Some(|step: &Step| step.actions.iter().any(|row| row.answer.changed));
    world.act(uid, pause());
    let answers = world.answers(uid);
    let [answer] = &answers[..] else { panic!("{answers:?}") };
    assert!(answer.starts_with("the store refused it (asked mail#2 to pause"), "{answer}");
    assert!(world.messages(uid).is_empty(), "{:?}", world.messages(uid));
    world.holds.refuses = None;
    world.act(uid, Action::Retry { reset: false, due: None });
    assert_eq!(world.answers(uid).len(), 2, "the next one is not held up");
}

#[test]
fn who_starts_what_somebody_else_starts_hears_the_same_when_the_store_refuses_it() {
    let mut world = holder();
    world.holds.refuses = Some(|step: &Step| step.instance.is_some());
    let told = Arc::new(Mutex::new(Vec::new()));
    for _ in 0..2 {
        let tells = told.clone();
        let options = StartOptions { id: "send-1".to_string(), ..StartOptions::default() };
        let reply = world.reply(move |told| tells.lock().unwrap().push(told));
        let (workflow, input) = ("send".to_string(), Payload::null());
        world.ask(Request::Start { workflow, input, options, reply });
    }
    world.settle();
    let told: Vec<String> = std::mem::take(&mut *told.lock().unwrap())
        .into_iter()
        .map(|told: Result<Started>| told.unwrap_err().to_string())
        .collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().all(|told| told.contains("a trigger refuses a row")), "{told:?}");
}

#[test]
fn a_call_that_runs_elsewhere_is_ended_after_its_claim_is_taken_away() {
    let mut world = holder();
    let other = Other::join(&world);
    let uid = world.start("send", "send-1".to_string());
    let task = other.claim(world.now);
    world.act(uid, Action::Complete { value: Payload::null(), unchecked: true });
    assert_eq!(world.answers(uid), ["completed mail#2"]);
    // Its attempt has nothing to say any more, and its transaction ends nothing.
    let token = task.claim.as_ref().unwrap().token;
    let calls = Arc::new([task.call]);
    let left = at_once(other.store.tasks_of(calls)).unwrap();
    assert!(left.iter().all(|row| row.claim.as_ref().is_none_or(|claim| claim.token != token)));
    other.report(&task, Reported::Completed(Payload::from_text("7")));
    world.hears();
    assert!(world.messages(uid).is_empty(), "{:?}", world.messages(uid));
}

#[test]
fn a_call_whose_attempt_elsewhere_has_ended_it_is_not_ended_by_hand() {
    let mut world = holder();
    let other = Other::join(&world);
    let uid = world.start("send", "send-1".to_string());
    let task = other.claim(world.now);
    world.holds.reads = Some(|read: &StoreRequest| matches!(read, StoreRequest::TakeOver { .. }));
    world.act(uid, Action::Complete { value: Payload::null(), unchecked: true });
    assert_eq!(world.answers(uid), [""; 0]);
    // Its transaction comes first.
    other.transacts(&task);
    world.let_go();
    world.hears();
    let answers = world.answers(uid);
    assert_eq!(answers, ["mail#2 completed"]);
}

#[test]
fn a_call_that_runs_elsewhere_fails_by_hand_and_follows_another_policy() {
    let mut world = holder();
    let other = Other::join(&world);
    let uid = world.start("send", "send-1".to_string());
    other.claim(world.now);
    world.act(uid, Action::SetPolicy { policy: RetryPolicy::once().to_stored() });
    world.act(uid, Action::Resume { reset: false, due: None });
    world.act(uid, Action::Fail { failure: Failure::terminal("enough") });
    assert_eq!(
        world.answers(uid),
        [
            "mail#2 follows another policy from now on",
            "mail#2 is running attempt 1; nothing to resume",
            "failed mail#2",
        ]
    );
}

#[test]
fn a_pause_of_a_call_that_runs_elsewhere_is_taken_back() {
    for takes_back in [false, true] {
        let mut world = holder();
        let other = Other::join(&world);
        let uid = world.start("send", "send-1".to_string());
        let task = other.claim(world.now);
        world.act(uid, pause());
        if takes_back {
            world.act(uid, Action::Resume { reset: false, due: None });
            assert_eq!(world.answers(uid)[1], "took back that mail#2 is to pause");
        }
        other.report(&task, Reported::Failed(Failure::retryable("the network is down")));
        world.hears();
        let task = world.tasks(uid).remove(0);
        assert_eq!((task.attempt, task.progress.failures), (1, 1));
        let waits = task.progress.paused.is_none() && task.wake_at != TaskRow::NEVER;
        assert_eq!(waits, takes_back, "{task:?}");
    }
}

#[test]
fn a_closed_instance_whose_id_is_taken_over_meanwhile_does_not_go_on() {
    for action in [Action::Reset(Reset::to(ResetTo::Event(Seq(2)))), Action::Restart] {
        let mut world = World::new(7);
        world.node.begin();
        world.settle();
        let uid = world.start("order", "order-1".to_string());
        world.advance(Duration::from_secs(60));
        let run = RunKey::first(uid);
        let before = at_once(world.store.history(run)).unwrap();
        world.holds.found =
            Some(|read: &StoreRequest| matches!(read, StoreRequest::RunToActOn { .. }));
        world.act_on(run.call(Seq::RUN), action.clone());
        // Another process starts an instance under the id, after the run was read.
        let row = InstanceRow::new(Uid(42), "order-1", "order", Payload::null(), world.now);
        let instance =
            Some(InstanceWrite::Insert { row: Box::new(row), replaces: Replaces::Closed });
        let step = Step { instance, ..Step::default() };
        assert_eq!(at_once(world.store.commit([step].into())).unwrap(), [StepResult::Written]);
        world.let_go();
        let verb = if action == Action::Restart { "restart" } else { "reset" };
        let why = format!("the id order-1 was taken over by a later start; {verb} that one");
        assert_eq!(world.answers(uid), [why]);
        assert!(world.messages(uid).is_empty(), "{:?}", world.messages(uid));
        let row = at_once(world.store.instance(uid)).unwrap().unwrap();
        assert_eq!((row.status, row.run), (Status::Completed, 1), "{action:?}");
        assert_eq!(at_once(world.store.history(run)).unwrap(), before);
    }
}

#[test]
fn an_instance_that_is_deleted_while_it_is_read_does_not_begin_again() {
    let mut world = World::new(7);
    world.node.begin();
    world.settle();
    let uid = world.start("order", "order-1".to_string());
    world.advance(Duration::from_secs(60));
    world.holds.found = Some(|read: &StoreRequest| matches!(read, StoreRequest::RunToActOn { .. }));
    world.act_on(RunKey::first(uid).call(Seq::RUN), Action::Restart);
    let deleted = at_once(world.store.delete_closed(Deletion::One(uid))).unwrap();
    assert_eq!(deleted.instances, 1);
    world.let_go();
    assert_eq!(at_once(world.store.find("order-1")).unwrap(), None);
    assert!(world.messages(uid).is_empty(), "{:?}", world.messages(uid));
    assert!(world.answers(uid).is_empty(), "{:?}", world.answers(uid));
}

#[test]
fn an_instance_that_a_job_has_begun_again_is_not_begun_again_by_the_same_job() {
    let mut world = World::new(7);
    world.node.begin();
    world.settle();
    let uid = world.start("order", "order-1".to_string());
    world.advance(Duration::from_secs(60));
    let call = world.act_on(RunKey::first(uid).call(Seq::RUN), Action::Restart);
    world.advance(Duration::from_secs(60));
    let again = at_once(world.store.find("order-1")).unwrap().unwrap();
    assert_eq!((again.uid != uid, again.status), (true, Status::Completed));
    let noted = at_once(world.store.actions(RunKey::first(again.uid))).unwrap().remove(0);
    for (uid, is_answered) in [(again.uid, true), (Uid(42), false)] {
        let request = Box::new(noted.request.clone());
        let body = StoredMessage::Action { run: 1, activity: call.seq, request };
        let messages = vec![now_due(uid, "bulk/job/1.0".to_string(), body)];
        let asked = [InstanceActions { uid, number: 1, messages }].into();
        let read = StoreRequest::Actions { asked }.ask_about_bulk(&world.store);
        let Some(Input::ActionsRead { found }) = at_once(read).unwrap() else { panic!() };
        assert_eq!(found[0].2[0].is_answered, is_answered);
    }
}

#[test]
fn a_letter_that_is_settled_while_its_run_is_read_is_not_redriven() {
    for state in [LetterState::Discarded, LetterState::Redriven] {
        let mut world = World::new(7);
        world.node.begin();
        world.settle();
        world.goes_on = Some("ship");
        let uid = world.start("order", "order-1".to_string());
        world.advance(Duration::from_secs(60));
        let attempt = world.running.remove(0);
        let (run, call) = (attempt.call.run, attempt.call);
        world.ends(&attempt, Err(Failure::terminal("no lorry")));
        world.settle();
        let letter = vec![LetterWrite::Insert(Box::new(letter(call, world.now)))];
        let kept = Step { letters: letter, ..Step::default() };
        assert_eq!(at_once(world.store.commit([kept].into())).unwrap(), [StepResult::Written]);
        let before = at_once(world.store.history(run)).unwrap();
        world.holds.found =
            Some(|read: &StoreRequest| matches!(read, StoreRequest::RunToActOn { .. }));
        let redrive = RedriveCall { call: call.seq, new_key: false, delay_ms: None };
        world.act_on(run.call(Seq::RUN), Action::Redrive(redrive));
        // Another process decides about the letter, after it was read.
        let (at, by) = (world.now, "bob".to_string());
        let settled = Settled { at, by, reason: None, redriven_as: None };
        let letters = vec![LetterWrite::Settle { call, state, settled }];
        let step = Step { letters, ..Step::default() };
        assert_eq!(at_once(world.store.commit([step].into())).unwrap(), [StepResult::Written]);
        world.let_go();
        let told = format!("ship#{} was {} by bob before", call.seq, state.name());
        assert_eq!(world.answers(uid), [told]);
        assert!(world.messages(uid).is_empty(), "{:?}", world.messages(uid));
        assert_eq!(at_once(world.store.history(run)).unwrap(), before);
    }
}

pub(super) fn letter(call: CallKey, at: Timestamp) -> DeadLetter {
    DeadLetter {
        call,
        instance: "order-1".to_string(),
        workflow: "order".to_string(),
        activity: "ship".to_string(),
        queue: "default".to_string(),
        gate: "ship".to_string(),
        policy: String::new(),
        input: Payload::null(),
        failure: Failure::terminal("no lorry"),
        why: "terminal".to_string(),
        attempts: 1,
        ledger: Vec::new(),
        at,
        fingerprint: "1:aa".to_string(),
        error: "no lorry".to_string(),
        state: LetterState::Open,
        settled: None,
    }
}

/// A world with a call whose transaction is with the store.
fn world_in_transaction() -> (World, Uid, TransactionRequest) {
    let mut world = World::new(7);
    world.goes_on = Some("ship");
    world.node.begin();
    world.settle();
    let uid = world.start("order", "order-1".to_string());
    world.advance(Duration::from_secs(2));
    let AttemptStart { call, token, .. } = world.running[0];
    let ask = TransactionRequest { ask: 1, call, token, wait: Duration::from_millis(10) };
    world.inputs.push_back((Input::Transact(ask), None));
    world.settle();
    assert_eq!(world.transactions, [ask]);
    (world, uid, ask)
}

/// What is answered to an action on a call while its transaction is with the store, and when the
/// store has decided that it is done, or that nothing was written.
fn in_transaction(action: &Action, is_done: bool) -> (Vec<String>, Vec<String>) {
    let (mut world, uid, ask) = world_in_transaction();
    world.act_on(ask.call, action.clone());
    let before = world.answers(uid);
    let answer = match is_done {
        true => Transacted::Done(Box::new(done_in_store(&world, uid, ask))),
        false => Transacted::Failed(Failure::terminal("no such address")),
    };
    world.inputs.push_back((Input::Transacted { ask, answer: Ok(answer) }, None));
    world.settle();
    if !is_done {
        // The attempt hears of it, and ends.
        let start = world.running.remove(0);
        world.ends(&start, Err(Failure::retryable("no such address")));
    }
    world.advance(Duration::from_secs(1));
    assert!(!world.messages(uid).iter().any(is_action), "{:?}", world.messages(uid));
    let row = at_once(world.store.instance(uid)).unwrap().unwrap();
    let mut after = world.answers(uid);
    after.drain(..before.len());
    after.push(row.status.name().to_string());
    (before, after)
}

/// The store carries a transaction out, which ends its call. Answers with the message that says so.
fn done_in_store(world: &World, uid: Uid, ask: TransactionRequest) -> MessageRow {
    let task = world.tasks(uid).remove(0);
    let event = EventKind::ActivityCompleted(ActivityCompleted {
        activity: ask.call.seq,
        result: Payload::from_text("\"shipped\""),
        attempt: task.attempt,
        started_at: task.wake_at,
        after_cancel: false,
        fallback: false,
        retry_metadata: None,
    });
    let body = StoredMessage::Result { run: 1, event };
    let message = now_due(uid, result_id(ask.call.run, ask.call.seq), body);
    let claim = task.claim.unwrap();
    let mut model = world.store.database().lock();
    assert!(model.end_claimed(&claim.node, ask.call, ask.token, &message).unwrap());
    message
}

fn is_action(message: &MessageRow) -> bool {
    matches!(message.body, StoredMessage::Action { .. })
}

#[test]
fn an_attempt_ends_when_its_run_reads_the_result_before_the_store_has_answered() {
    let (mut world, uid, ask) = world_in_transaction();
    let message = done_in_store(&world, uid, ask);
    world.orders.clear();
    world.node.others_committed(world.at(), false);
    world.settle();
    assert!(world.tasks(uid).is_empty() && world.messages(uid).is_empty(), "the run has taken it");
    assert_eq!(world.orders, [(ask.token, Order::Cut)]);
    // The answer comes after all, and changes nothing.
    let before = at_once(world.store.history(RunKey::first(uid))).unwrap();
    let answer = Ok(Transacted::Done(Box::new(message)));
    world.inputs.push_back((Input::Transacted { ask, answer }, None));
    world.advance(Duration::from_secs(1));
    assert_eq!(at_once(world.store.history(RunKey::first(uid))).unwrap(), before);
}

#[test]
fn while_its_transaction_is_with_the_store_a_call_is_not_ended_by_hand() {
    let complete = Action::Complete { value: Payload::from_text("\"lost\""), unchecked: true };
    let fail = Action::Fail { failure: Failure::terminal("enough") };
    for action in [complete, fail] {
        let (before, after) = in_transaction(&action, true);
        assert!(before.is_empty(), "held until the store has decided: {before:?}");
        // The run is over with it. Who asked finds the message gone, and hears that.
        assert_eq!(after, ["completed"], "{action:?}");
        let (before, after) = in_transaction(&action, false);
        assert!(before.is_empty(), "{before:?}");
        let verb = if matches!(action, Action::Fail { .. }) { "failed" } else { "completed" };
        assert_eq!(after, [format!("{verb} ship#4"), verb.to_string()], "{action:?}");
    }
}

#[test]
fn while_its_transaction_is_with_the_store_a_call_runs_for_everybody_else() {
    let set = Action::SetPolicy { policy: RetryPolicy::once().to_stored() };
    let cases = [
        (
            Action::Retry { reset: false, due: None },
            "ship#4 is running attempt 1; nothing to retry",
        ),
        (
            Action::Resume { reset: false, due: None },
            "ship#4 is running attempt 1; nothing to resume",
        ),
        (pause(), "asked ship#4 to pause when attempt 1 has failed"),
        (set, "ship#4 follows another policy from now on"),
    ];
    for (action, answer) in cases {
        assert_eq!(in_transaction(&action, true), (vec![answer.into()], vec!["completed".into()]));
        let (before, after) = in_transaction(&action, false);
        assert_eq!(before, [answer]);
        // Only another policy ends it with its first failure.
        let ends = matches!(action, Action::SetPolicy { .. });
        assert_eq!(after, [if ends { "failed" } else { "running" }], "{action:?}");
    }
}

/// The call of a transaction that fails so that it may be tried again, after these actions.
fn failed_in_transaction(actions: &[Action]) -> (Vec<String>, TaskRow) {
    let (mut world, uid, ask) = world_in_transaction();
    for action in actions {
        world.act_on(ask.call, action.clone());
    }
    let failure = Failure::retryable("no such address");
    let answer = Ok(Transacted::Failed(failure.clone()));
    world.inputs.push_back((Input::Transacted { ask, answer }, None));
    world.settle();
    let start = world.running.remove(0);
    world.ends(&start, Err(failure));
    world.settle();
    (world.answers(uid), world.tasks(uid).remove(0))
}

#[test]
fn a_call_that_was_to_pause_is_paused_when_its_transaction_fails_unless_that_was_taken_back() {
    let (answers, task) = failed_in_transaction(&[pause()]);
    assert_eq!(answers, ["asked ship#4 to pause when attempt 1 has failed"]);
    assert_eq!((task.wake_at, task.progress.failures), (TaskRow::NEVER, 1));
    assert_eq!(task.progress.paused.and_then(|pause| pause.by).as_deref(), Some("ana"));
    let resume = Action::Resume { reset: false, due: None };
    let (answers, task) = failed_in_transaction(&[pause(), resume]);
    assert_eq!(answers[1], "took back that ship#4 is to pause");
    assert_ne!(task.wake_at, TaskRow::NEVER);
    assert!(task.progress.paused.is_none() && task.claim.is_none(), "{task:?}");
}

#[test]
fn what_is_asked_of_a_run_is_answered_although_the_run_ends_first() {
    let mut world = holder();
    let uid = world.start("listen", "listen-1".to_string());
    world.holds.reads = Some(|read| matches!(read, StoreRequest::Reports { .. }));
    world.act_on(RunKey::first(uid).call(Seq::RUN), Action::PauseRun { calls: false });
    world.tell(uid, EventKind::TerminateRequested { reason: "enough".to_string() });
    world.settle();
    assert_eq!(world.answers(uid), [""; 0]);
    world.let_go();
    assert_eq!(world.answers(uid), ["listen-1 is terminated; nothing to pause"]);
    assert!(world.messages(uid).is_empty(), "{:?}", world.messages(uid));
}

#[test]
fn a_call_that_leaves_memory_while_somebody_acts_on_it_is_read_again() {
    let mut world = holder();
    world.goes_on = Some("ship");
    let uid = world.start("order", "order-1".to_string());
    world.advance(Duration::from_secs(2));
    let call = RunKey::first(uid).call(Seq(4));
    world.act_on(call, pause());
    world.holds.found = Some(|read| matches!(read, StoreRequest::ReportedTasks { .. }));
    world.act_on(call, Action::Resume { reset: false, due: None });
    let attempt = world.running.pop().unwrap();
    world.ends(&attempt, Err(Failure::retryable("no lorry")));
    world.settle();
    assert_eq!(world.tasks(uid)[0].wake_at, TaskRow::NEVER, "the pause takes hold");
    world.let_go();
    let task = world.tasks(uid).remove(0);
    assert_eq!((task.progress.failures, task.progress.paused), (1, None));
    let is_over = |claim: &Claim| claim.token == attempt.token;
    assert!(!task.claim.as_ref().is_some_and(is_over), "the attempt has ended: {:?}", task.claim);
}

#[test]
fn a_run_that_is_read_while_an_attempt_ends_does_not_wait_for_that_attempt() {
    let mut world = holder();
    world.goes_on = Some("rent");
    let uid = world.start("stay", "stay-1".to_string());
    assert_eq!(world.began, ["clean", "rent"]);
    let call = world.tasks(uid)[0].call;
    world.act_on(call, pause());
    let run = RunKey::first(uid).call(Seq::RUN);
    world.act_on(run, Action::PauseRun { calls: false });
    world.holds.found = Some(|read| matches!(read, StoreRequest::Run(_)));
    world.act_on(run, Action::ResumeRun);
    assert_eq!(world.held.found.len(), 1, "the run is read while its room is rented");
    let attempt = world.running.pop().unwrap();
    world.ends(&attempt, Err(Failure::retryable("nobody has the key")));
    world.settle();
    assert_eq!(world.tasks(uid)[0].wake_at, TaskRow::NEVER, "the pause takes hold");
    world.tell(uid, EventKind::CancelRequested { reason: "enough".to_string() });
    world.let_go();
    assert_eq!(world.tasks(uid), [], "nobody works on what is cancelled");
    let row = at_once(world.store.instance(uid)).unwrap().unwrap();
    assert_eq!(row.status, Status::Cancelled);
}

/// A world in which a room is cleaned, and a reset of its run is on its way to a store that refuses
/// it.
fn world_with_refused_reset() -> (World, Uid) {
    let mut world = World::new(7);
    world.goes_on = Some("clean");
    world.node.begin();
    world.settle();
    let uid = world.start("clean", "clean-1".to_string());
    world.holds.found = Some(|read: &StoreRequest| matches!(read, StoreRequest::RunToActOn { .. }));
    let reset = Action::Reset(Reset::to(ResetTo::Event(Seq(2))));
    world.act_on(RunKey::first(uid).call(Seq::RUN), reset);
    world.holds.refuses = Some(|step: &Step| step.rewind.is_some());
    world.holds.answers = true;
    let found = world.held.found.pop().unwrap();
    world.inputs.push_back(found);
    world.settle();
    (world, uid)
}

impl World {
    /// The answers that were held back arrive. Steps are still refused.
    fn answers_arrive(&mut self) {
        self.holds.answers = false;
        for (lane, answer) in std::mem::take(&mut self.held.answers) {
            self.answered(lane, answer);
        }
        self.settle();
        self.holds.refuses = None;
    }

    /// The room is clean; how its instance stands then.
    fn is_clean(&mut self, uid: Uid) -> Status {
        let clean = self.running.pop().unwrap();
        self.ends(&clean, Ok(Payload::null()));
        self.settle();
        at_once(self.store.instance(uid)).unwrap().unwrap().status
    }
}

#[test]
fn an_attempt_goes_on_when_the_store_refuses_a_reset_of_its_run() {
    let (mut world, uid) = world_with_refused_reset();
    world.answers_arrive();
    assert!(world.orders.is_empty(), "{:?}", world.orders);
    assert_eq!(world.is_clean(uid), Status::Completed);
    assert_eq!(world.began, ["clean"]);
}

#[test]
fn an_attempt_whose_end_nobody_wanted_is_lost_when_the_store_refuses_the_reset() {
    let (mut world, uid) = world_with_refused_reset();
    assert_eq!(world.is_clean(uid), Status::Running);
    world.answers_arrive();
    world.advance(Duration::from_secs(5));
    assert_eq!(world.began, ["clean", "clean"]);
    assert_eq!(world.is_clean(uid), Status::Completed);
}
