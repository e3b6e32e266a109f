//! Attempts that write to the user's own tables: what they wrote and their result are recorded in
//! one transaction of the store, and the turn follows in the next commit.
//!
//! | what happens | what follows |
//! |---|---|
//! | an attempt asks and holds its claim | the store gets the work, and what ends the call |
//! | the store did it | the call is over, the attempt is ended, the run gets the message as news |
//! | the run reads the message before the store has answered | the attempt is ended likewise |
//! | the work failed, or the claim is gone | the attempt hears of it, and nothing was written |
//! | the store is in trouble | the attempt asks again after a while, and no attempt is counted |
//! | another node is the owner by now | this one steps down |
//!
//! While the store has the work, the store decides: an attempt that reports meanwhile, because its
//! time is up or its code gave up waiting, is heard when it is known that nothing was written. A
//! workflow that gives the call up does not wait for that. Whichever of the two commits comes first
//! counts, and the other one finds that the task is gone.

use std::time::Duration;

use resurgam_core::gate::Outcome;
use resurgam_core::{CallKey, Failure, Kind, Payload};
use resurgam_store::Transacted;
use resurgam_store::rows::MessageRow;

use super::Node;
use super::calls::hot_call::HotCall;
use super::follow_up::FollowUp;
use super::output::{Order, Output, Transaction, TransactionRequest};

/// The wait after the first trouble of the store; it doubles.
pub const FIRST_WAIT: Duration = Duration::from_millis(10);

/// The longest wait between two tries.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

impl Node {
    /// An attempt asks for a transaction.
    pub(crate) fn transact(&mut self, ask: TransactionRequest) {
        // An operator may have ended the call, and that is not durable yet.
        let is_wanted = |call: &&HotCall| !call.is_given_up();
        let here = self.memory.calls.attempt(ask.call, ask.token).filter(is_wanted);
        let Some(call) = here.or_else(|| self.memory.reports.get(ask.call, ask.token)) else {
            return self.refuse_transaction(ask, lost_claim());
        };
        let completed = call.completed(Payload::null(), self.now);
        if !self.memory.transactions.begin(ask.call, ask.token) {
            return self.refuse_transaction(ask, second());
        }
        self.outputs.push(Output::Transact(Box::new(Transaction { ask, completed })));
    }

    fn refuse_transaction(&mut self, ask: TransactionRequest, failure: Failure) {
        self.outputs.push(Output::RefuseTransaction { ask: ask.ask, failure });
        self.transaction_decided(ask.call);
    }

    /// It is known what became of a transaction: whoever wants to end its call may do so.
    fn transaction_decided(&mut self, call: CallKey) {
        if self.memory.transactions.goes_on(call) {
            self.then(FollowUp::HasReports(call.run.uid));
        }
    }

    /// The store has decided about a transaction.
    pub(crate) fn transacted(
        &mut self,
        ask: TransactionRequest,
        answer: resurgam_store::Result<Transacted>,
    ) {
        let (key, token) = (ask.call, ask.token);
        // None when this node has stepped down since.
        let Some(reports) = self.memory.transactions.end(key, token) else { return };
        match answer {
            // Whatever the attempt reported meanwhile came too late.
            Ok(Transacted::Done(message)) => return self.transaction_done(ask, *message),
            Ok(Transacted::Failed(failure)) => self.refuse_transaction(ask, failure),
            Ok(Transacted::Refused) => self.refuse_transaction(ask, lost_claim()),
            Err(error) if error.is_fenced() => return self.step_down(Vec::new()),
            Err(error) if error.is_data() => {
                let failure = Failure::of_type("StoreRefused", error.to_string());
                self.refuse_transaction(ask, failure);
            }
            Err(error) if reports.is_empty() => self.transact_later(ask, &error),
            // The attempt did not wait for it.
            Err(_) => self.refuse_transaction(ask, lost_claim()),
        }
        for end in reports {
            self.attempt_ended(key, token, end);
        }
    }

    /// The call is over, and its attempt ends where it waits for its transaction.
    fn transaction_done(&mut self, ask: TransactionRequest, message: MessageRow) {
        let name = self.memory.calls.get(ask.call).map(|call| call.task().name.clone());
        self.cut_attempt(ask.call);
        self.outputs.push(Output::TransactionRecorded { ask: ask.ask });
        if let Some(name) = name {
            self.pressure.succeeded(&name, self.now);
        }
        self.transaction_decided(ask.call);
        self.call_ended_in_store(ask.call, message);
        self.fill_slots();
    }

    /// A run takes a result that it has read. When it is that of a transaction whose answer has not
    /// come yet, the attempt ends now: what the run does next must not meet it.
    pub(crate) fn result_read(&mut self, key: CallKey) {
        if self.memory.transactions.is_under_way(key) {
            self.cut_attempt(key);
            self.fill_slots();
        }
    }

    /// The store has ended a call with the result of its attempt, which ends with it.
    fn cut_attempt(&mut self, key: CallKey) {
        self.gate_hears(key, Outcome::Succeeded);
        self.free_slot(key);
        let away = self.memory.reports.remove(key);
        for mut call in self.take_call(key).into_iter().chain(away) {
            call.take_slot().into_iter().for_each(|slot| self.memory.slots.free(slot));
            self.order_attempt(&call, Order::Cut);
        }
    }

    /// The store is in trouble: the attempt asks again, if it is still there by then.
    fn transact_later(&mut self, ask: TransactionRequest, error: &resurgam_store::Error) {
        tracing::debug!("transaction, again in {:?}: {error}", ask.wait);
        metrics::counter!("resurgam.commit_retries").increment(1);
        let (after, wait) = (ask.wait, ask.wait.saturating_mul(2).min(LONGEST_WAIT));
        self.outputs.push(Output::AskAgain { ask: TransactionRequest { wait, ..ask }, after });
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
