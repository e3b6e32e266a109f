//! How tests wait: across crashes, in virtual time, and not for ever.

use std::collections::BTreeSet;
use std::time::Duration;

use resurgam::{Description, Error, InstanceFilter, Outcome, Result, WaitsFor};

use super::TestApp;
use crate::clock::{Stall, since_begin};

/// How long a test waits for the end of a run that is blocked.
const A_DAY: Duration = Duration::from_secs(86_400);

/// How many calls are named that are paused, or that a gate holds back.
const NAMED: usize = 3;

impl TestApp {
    /// Ready with the reason once an instance is found blocked, or without code, after a day: it is
    /// tried again for ever, and a test that waits for its end would never hear of it.
    async fn stays_blocked(&self, id: &str) -> String {
        loop {
            self.0.clock.passed(self.now().saturating_add(A_DAY)).await;
            let row = self.0.store.find(id).await.expect("a store that answers");
            if let Some(error) = row.and_then(|row| row.error) {
                return error;
            }
        }
    }

    /// Waits for an answer of the engine, across crashes, and lets the time run.
    pub(super) async fn wait<T, A>(&self, what: &str, ask: impl Fn() -> A) -> Result<T>
    where
        A: Future<Output = Result<T>>,
    {
        let answer = async {
            loop {
                let answer = tokio::select! {
                    biased;
                    () = self.0.faults.crashed() => {
                        self.restart().await;
                        continue;
                    }
                    answer = ask() => answer,
                };
                match answer {
                    Err(error) if error.is_stopped() => self.wait_for_engine().await,
                    answer => return answer,
                }
            }
        };
        match self.0.clock.wait_for(what, answer).await {
            Err(Stall::Nothing) => panic!(
                "waited for {what}, but nothing is under way and nothing is due: {}",
                self.why_nothing().await
            ),
            waited => self.or_panic(waited, what),
        }
    }

    /// Waits for the end of an instance.
    pub(super) async fn outcome(&self, id: &str, uid: resurgam_core::Uid) -> Outcome {
        let what = format!("the end of {id}");
        let outcome = self.wait(&what, || {
            let client = self.client();
            async move { client.handle().outcome(uid).await }
        });
        tokio::select! {
            biased;
            outcome = outcome => outcome.unwrap_or_else(|error: Error| panic!("{error}")),
            why = self.stays_blocked(id) => panic!("waited for {what}: {why}"),
        }
    }

    /// What a test that waits in vain has probably forgotten.
    async fn why_nothing(&self) -> String {
        let (mut unregistered, mut held) = (BTreeSet::new(), BTreeSet::new());
        for row in self.client().list(InstanceFilter::default()).await.unwrap_or_default() {
            let described = self.client().describe(&row.id).await;
            let pending = described.ok().flatten().map(|described| described.pending);
            for call in pending.unwrap_or_default() {
                let name = format!("{} of {}", call.activity, row.id);
                match (call.waits_for, call.held_by) {
                    (Some(WaitsFor::Unregistered), _) => unregistered.insert(name),
                    (Some(WaitsFor::Operator), _) => held.insert(format!("{name} is paused")),
                    (_, Some(what)) => held.insert(format!("{name} waits for {what}")),
                    (_, None) => false,
                };
            }
        }
        match (unregistered.first(), held.len()) {
            (Some(call), _) => format!(
                "the activity {call} is not registered; add it with .activity(..) or .stub(.., ..)"
            ),
            (None, 0) => "does a workflow wait for a signal that nobody sends?".to_string(),
            (None, count) => {
                let first: Vec<String> = held.into_iter().take(NAMED).collect();
                let more = count.saturating_sub(NAMED);
                let more = if more > 0 { format!(", and {more} more") } else { String::new() };
                first.join(", ") + &more
            }
        }
    }

    /// The engine that was asked is gone; another one comes, or came already.
    async fn wait_for_engine(&self) {
        tokio::task::yield_now().await;
    }

    pub(super) fn or_panic<T>(&self, waited: std::result::Result<T, Stall>, what: &str) -> T {
        match waited {
            Ok(value) => value,
            Err(Stall::Nothing) => panic!(
                "waited for {what}, but nothing is under way and nothing is due: does a workflow \
                 wait for a signal that nobody sends?"
            ),
            Err(Stall::Hang(report)) => panic!("waited for {what}, but {report}"),
        }
    }
}

/// What an instance waits for, in a few words.
pub(super) fn waits_for(described: &Description) -> String {
    let calls = described.pending.iter().map(|call| {
        let (activity, attempt) = (&call.activity, call.attempt);
        match (call.running, call.waits_for, call.next_due) {
            (true, ..) => format!("attempt {attempt} of {activity}, which runs"),
            (_, Some(WaitsFor::Backoff), Some(due)) => {
                format!("{activity}, whose next attempt is due at {}", since_begin(due))
            }
            (_, Some(WaitsFor::Unregistered), _) => format!("{activity}, which is not registered"),
            (_, Some(WaitsFor::Lacking), _) => {
                let what = call.lacks.as_deref().unwrap_or("something");
                format!("{activity}, for which this process lacks {what}")
            }
            (_, Some(WaitsFor::Poison), _) => {
                format!("{activity}, which loses its process and runs beside no other such call")
            }
            (_, Some(WaitsFor::Operator), _) => format!("{activity}, which is paused"),
            _ => match &call.held_by {
                Some(what) => format!("{activity}, which waits for {what}"),
                None => format!("{activity}, which needs a slot"),
            },
        }
    });
    let timers = described.timers.iter().map(|at| format!("a timer at {}", since_begin(*at)));
    let known: Vec<String> = calls.chain(timers).collect();
    match known.is_empty() {
        true => "a signal, a child, or something that is not the engine's".to_string(),
        false => known.join(", "),
    }
}
