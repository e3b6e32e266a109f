//! How tests wait: across crashes, in virtual time, and not for ever.

use std::collections::BTreeSet;
use std::time::Duration;

use resurgam::{Description, Error, InstanceFilter, Outcome, Result, WaitsFor};

use super::TestApp;
use crate::clock::{Stall, since_begin};

/// How long a test waits for the end of a run that is blocked.
const A_DAY: Duration = Duration::from_secs(86_400);

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
        let mut forgotten = BTreeSet::new();
        for row in self.client().list(InstanceFilter::default()).await.unwrap_or_default() {
            let described = self.client().describe(&row.id).await;
            let pending = described.ok().flatten().map(|described| described.pending);
            let lost = pending.unwrap_or_default().into_iter();
            let lost = lost.filter(|call| call.waits_for == Some(WaitsFor::Unregistered));
            forgotten.extend(lost.map(|call| format!("{} of {}", call.activity, row.id)));
        }
        match forgotten.first() {
            None => "does a workflow wait for a signal that nobody sends?".to_string(),
            Some(call) => format!(
                "the activity {call} is not registered; add it with .activity(..) or .stub(.., ..)"
            ),
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
            _ => format!("{activity}, which needs a slot"),
        }
    });
    let timers = described.timers.iter().map(|at| format!("a timer at {}", since_begin(*at)));
    let known: Vec<String> = calls.chain(timers).collect();
    match known.is_empty() {
        true => "a signal, a child, or something that is not the engine's".to_string(),
        false => known.join(", "),
    }
}
