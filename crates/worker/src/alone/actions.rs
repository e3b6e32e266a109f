//! Operators who act on calls that another node may run, at bad moments.

use resurgam_core::action::Action;
use resurgam_core::retry::RetryPolicy;
use resurgam_core::{CallKey, Seq};
use resurgam_store::rows::{ActionRequest, MessageRow, TaskRow};
use resurgam_store::{Reported, Runnable, Work};
use resurgam_watchdog::test;

use super::remote::{Other, holder};
use super::*;

impl World {
    /// Somebody asks for something to be done to the first call of an instance.
    fn act(&mut self, uid: Uid, action: Action) -> CallKey {
        let call = RunKey::first(uid).call(Seq(2));
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

fn claims_to_act(read: &Read) -> bool {
    matches!(read, Read::ClaimToAct { .. })
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
    world.holds.reads = Some(|read: &Read| matches!(read, Read::TakeOver { .. }));
    world.act(uid, Action::Complete { value: Payload::null(), unchecked: true });
    assert_eq!(world.answers(uid), [""; 0]);
    // Its transaction comes first.
    other.transacts(&task);
    world.let_go();
    world.hears();
    let answers = world.answers(uid);
    assert!(answers[0].contains("has ended"), "{answers:?}");
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
