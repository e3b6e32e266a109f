//! Attempts that write to the user's own tables: what they wrote and their result are recorded in
//! one transaction of the store, and the turn follows in the next commit.
//!
//! | what happens | what follows |
//! |---|---|
//! | an attempt asks and holds its claim | the store gets the work, and what ends the call |
//! | the store did it | the call is over, the attempt is ended, the run gets the message as news |
//! | the work failed, or the claim is gone | the attempt hears of it, and nothing was written |
//! | the store is in trouble | the attempt asks again after a while, and no attempt is counted |
//! | another node is the owner by now | this one steps down |
//!
//! While the store has the work, the store decides: an attempt that reports meanwhile, because its
//! time is up or its code gave up waiting, is heard when it is known that nothing was written. A
//! workflow that gives the call up does not wait for that. Whichever of the two commits comes first
//! counts, and the other one finds that the task is gone.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use resurgam_core::{CallKey, EventKind, Failure, Kind, Payload, UserWork};
use resurgam_store::rows::{Message as StoredMessage, MessageRow};
use resurgam_store::{AttemptTransaction, Transacted};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::call::{HotCall, has_token};
use super::ended::fitting;
use super::message::{news_of, now_due, result_id};
use super::{Engine, Message};
use crate::clock::{Busy, Clock};

/// The wait after the first trouble of the store; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(10);

/// The longest wait between two tries.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// What an attempt asks for.
pub(crate) struct Ask {
    pub(super) call: CallKey,
    token: u64,
    work: UserWork,
    /// How long to wait when the store is in trouble.
    wait: Duration,
    reply: oneshot::Sender<(Failure, Busy)>,
}

impl Ask {
    /// Asks for a transaction. The answer is why there was none; without one, it is recorded.
    pub(crate) fn new(
        call: CallKey,
        token: u64,
        work: UserWork,
    ) -> (Self, oneshot::Receiver<(Failure, Busy)>) {
        let (reply, answer) = oneshot::channel();
        (Ask { call, token, work, wait: FIRST_WAIT, reply }, answer)
    }

    /// What code hears that goes on although its attempt is over.
    pub(crate) fn over() -> Failure {
        let message = "the attempt is over: its transaction is recorded, or its process stops";
        Failure::of_kind(Kind::Cancelled, message)
    }

    fn fails(self, failure: Failure, clock: &dyn Clock) {
        // Busy until the attempt has heard it. One that no longer waits for it is told elsewhere.
        let _nobody_waits = self.reply.send((failure, clock.busy(&"an attempt that goes on")));
    }
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a transaction of call {}", self.call)
    }
}

/// The transactions that are with the store, by call and token.
#[derive(Debug, Default)]
pub(super) struct Transactions(BTreeMap<(CallKey, u64), WithStore>);

/// A transaction that is with the store.
#[derive(Debug)]
struct WithStore {
    task: JoinHandle<()>,
    /// What the attempt reported meanwhile, in order, and whether it lingered then.
    reports: Vec<(Result<Payload, Failure>, bool)>,
}

impl Drop for WithStore {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Transactions {
    /// True while the store decides about this call.
    pub(super) fn is_under_way(&self, key: CallKey) -> bool {
        self.0.keys().any(|(call, _)| *call == key)
    }

    /// Keeps a report until the store has decided; hands it back when there is nothing to decide.
    pub(super) fn hold(
        &mut self,
        key: CallKey,
        token: u64,
        report: Result<Payload, Failure>,
        lingers: bool,
    ) -> Option<Result<Payload, Failure>> {
        let Some(with_store) = self.0.get_mut(&(key, token)) else { return Some(report) };
        with_store.reports.push((report, lingers));
        None
    }
}

impl Engine {
    /// An attempt asks for a transaction.
    pub(super) fn transact(&mut self, ask: Ask) {
        let key = (ask.call, ask.token);
        let here = self.calls.get(&ask.call).filter(|call| has_token(call, ask.token));
        let Some(call) = here.or_else(|| self.reports.get(ask.call, ask.token)) else {
            return ask.fails(lost_claim(), &*self.clock);
        };
        if self.transactions.0.contains_key(&key) {
            return ask.fails(second(), &*self.clock);
        }
        let attempt = Arc::new(self.attempt_transaction(call, &ask));
        let (store, mailbox) = (self.store.clone(), self.mailbox.clone());
        let busy = self.clock.busy(&"a transaction");
        let task = tokio::spawn(async move {
            let answer = store.transact(attempt).await;
            mailbox.send(Message::Transacted(ask, answer));
            drop(busy);
        });
        self.transactions.0.insert(key, WithStore { task, reports: Vec::new() });
    }

    fn attempt_transaction(&self, call: &HotCall, ask: &Ask) -> AttemptTransaction {
        let (run, most) = (ask.call.run, self.options.max_payload);
        let id = result_id(run, ask.call.seq);
        let completed = call.completed(Payload::null(), self.now);
        let message = move |result| {
            let mut completed = completed.clone();
            completed.result = fitting(result, most)?;
            let event = EventKind::ActivityCompleted(completed);
            Ok(now_due(run.uid, id.clone(), StoredMessage::Result { run: run.run, event }))
        };
        AttemptTransaction {
            call: ask.call,
            token: ask.token,
            work: ask.work.clone(),
            message: Box::new(message),
        }
    }

    /// The store has decided about a transaction.
    pub(super) fn transacted(&mut self, ask: Ask, answer: resurgam_store::Result<Transacted>) {
        let (key, token) = (ask.call, ask.token);
        // None when this node has stepped down since.
        let Some(mut with_store) = self.transactions.0.remove(&(key, token)) else { return };
        match answer {
            // Whatever the attempt reported meanwhile came too late.
            Ok(Transacted::Done(message)) => return self.transaction_done(&ask, *message),
            Ok(Transacted::Failed(failure)) => ask.fails(failure, &*self.clock),
            Ok(Transacted::Refused) => ask.fails(lost_claim(), &*self.clock),
            Err(error) if error.is_fenced() => return self.step_down(Vec::new()),
            Err(error) if error.is_data() => {
                ask.fails(Failure::of_type("StoreRefused", error.to_string()), &*self.clock);
            }
            Err(error) if with_store.reports.is_empty() => self.transact_later(ask, &error),
            Err(_) => {}
        }
        for (report, lingers) in std::mem::take(&mut with_store.reports) {
            self.attempt_ended(key, token, report, lingers);
        }
    }

    /// The call is over. Dropping it ends the attempt where it waits for its transaction.
    fn transaction_done(&mut self, ask: &Ask, message: MessageRow) {
        let CallKey { run, seq } = ask.call;
        self.free_slot(ask.call);
        self.calls.remove(&ask.call);
        let away = self.reports.remove(ask.call).and_then(|mut call| call.slot.take());
        away.into_iter().for_each(|slot| self.slots.free(slot));
        match self.runs.get_mut(&run.uid).filter(|hot| hot.key == run) {
            Some(hot) => {
                hot.calls.remove(&seq);
                hot.news.extend(news_of(run, message));
                self.advance(run.uid);
            }
            None => self.has_messages(run.uid),
        }
        self.fill_slots();
    }

    /// The store is in trouble: the attempt asks again, if it is still there by then.
    fn transact_later(&self, mut ask: Ask, error: &resurgam_store::Error) {
        tracing::debug!("transaction, again in {:?}: {error}", ask.wait);
        metrics::counter!("resurgam.commit_retries").increment(1);
        let moment = self.clock.sleep(ask.wait);
        ask.wait = ask.wait.saturating_mul(2).min(LONGEST_WAIT);
        let mailbox = self.mailbox.clone();
        tokio::spawn(async move {
            let busy = moment.await;
            mailbox.send(Message::Transact(ask));
            drop(busy);
        });
    }
}

fn lost_claim() -> Failure {
    let message = "the attempt lost its claim before its transaction began; nothing was written";
    Failure::of_kind(Kind::Cancelled, message)
}

fn second() -> Failure {
    let message = "another transaction of this attempt is under way; an attempt has one";
    Failure::terminal(message).with_type("SecondTransaction")
}
