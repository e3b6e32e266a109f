//! What waits for an operator's decision: dead letters, and calls that are paused.
//!
//! Decisions about groups are bulk actions (`bulk.rs`).

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use resurgam_core::action::{Action, ActionAnswer, RedriveCall};
use resurgam_core::{CallKey, Seq};
use resurgam_store::{
    CallFilter, CallGroup, CallStatus, DeadLetter, DeadLetterFilter, LetterState, LetterWrite,
    PausedCall, PausedFilter, Settled,
};
use resurgam_worker::{
    Acted, BulkTarget, Error, IfExists, LetterFilter, Result, StartOptions, redriven_id, submit,
};

use crate::act::os_user;
use crate::client::millis;
use crate::{Act, BulkAct, Client};

impl Client {
    /// Dead letters, the newest first: calls that were given up under a policy with
    /// `on_exhausted: "dead_letter"`. The open ones, unless the filter says otherwise.
    ///
    /// ```
    /// use resurgam::prelude::*;
    /// use resurgam::retry::Exhausted;
    /// use resurgam::{CallCursor, DeadLetterFilter, LetterState};
    /// use resurgam_testing::TestApp;
    ///
    /// #[activity(retry = RetryPolicy::once().on_exhausted(Exhausted::DeadLetter))]
    /// async fn charge(order: u64) -> Result<u64, Failure> {
    ///     Err(Failure::of_type("BankDown", format!("no answer for order {order}")))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), resurgam::Error> {
    /// let app = TestApp::builder().activity(charge).start().await;
    /// for order in 1..=3 {
    ///     app.submit(&format!("order-{order}"), charge(order)).await?.failure().await;
    /// }
    /// let client = app.client();
    ///
    /// // One problem, three calls.
    /// let groups = client.dead_letter_groups(DeadLetterFilter::default()).await?;
    /// assert_eq!((groups.len(), groups[0].count), (1, 3));
    /// assert_eq!(groups[0].error, "BankDown: no answer for order <n>");
    ///
    /// // The letters themselves, page by page.
    /// let first = DeadLetterFilter { limit: 2, ..DeadLetterFilter::default() };
    /// let page = client.dead_letters(first.clone()).await?;
    /// let after = page.last().map(CallCursor::of_letter);
    /// assert_eq!(client.dead_letters(DeadLetterFilter { after, ..first }).await?.len(), 1);
    /// let letter = client.dead_letter(page[0].call).await?.expect("it was listed");
    /// assert_eq!((letter.instance.as_str(), letter.why.as_str()), ("order-3", "max_attempts"));
    ///
    /// // One is tried again by itself, and nothing is to be done about the others.
    /// let tried = client.redrive(letter.call).as_new().by("ana").await?;
    /// assert!(tried.changed(), "{tried}");
    /// let discarded = client.discard_one(page[1].call).by("ana").await?;
    /// assert_eq!(discarded.to_string(), "discarded charge#2 of order-2");
    /// let all = DeadLetterFilter { fingerprint: Some(letter.fingerprint), ..Default::default() };
    /// let discard = client.discard(all.clone()).by("ana").reason("paid by hand");
    /// assert!(discard.await?.counts.changed >= 1);
    /// let discarded = DeadLetterFilter { state: LetterState::Discarded, ..all };
    /// let settled = client.dead_letters(discarded).await?[0].settled.clone();
    /// assert_eq!(settled.map(|settled| settled.by).as_deref(), Some("ana"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn dead_letters(&self, filter: DeadLetterFilter) -> Result<Vec<DeadLetter>> {
        let _busy = self.handle().busy();
        let letters = self.handle().store().dead_letters(filter).await;
        letters.map_err(|error| Error::store("list dead letters", error))
    }

    /// Dead letters by what they have in common, the largest group first.
    pub async fn dead_letter_groups(&self, filter: DeadLetterFilter) -> Result<Vec<CallGroup>> {
        let _busy = self.handle().busy();
        let groups = self.handle().store().dead_letter_groups(filter).await;
        groups.map_err(|error| Error::store("group dead letters", error))
    }

    /// The dead letter of a call.
    pub async fn dead_letter(&self, call: CallKey) -> Result<Option<DeadLetter>> {
        let _busy = self.handle().busy();
        let letter = self.handle().store().dead_letter(call).await;
        letter.map_err(|error| Error::store(format!("read the dead letter of {call}"), error))
    }

    /// Calls that are paused, those that were paused last first.
    ///
    /// ```
    /// use resurgam::prelude::*;
    /// use resurgam::PausedFilter;
    /// use resurgam::retry::Exhausted;
    /// use resurgam_testing::TestApp;
    /// use std::time::Duration;
    ///
    /// #[activity(retry = RetryPolicy::once().on_exhausted(Exhausted::Pause { wait: None }))]
    /// async fn charge(order: u64) -> Result<u64, Failure> {
    ///     Err(Failure::of_type("BankDown", format!("no answer for order {order}")))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), resurgam::Error> {
    /// let app = TestApp::builder().activity(charge).start().await;
    /// let first = app.submit("order-1", charge(1)).await?;
    /// app.submit("order-2", charge(2)).await?;
    /// app.advance(Duration::from_secs(1)).await;
    /// let client = app.client();
    ///
    /// let paused = client.paused_calls(PausedFilter::default()).await?;
    /// assert_eq!(paused.iter().map(|call| call.instance.as_str()).max(), Some("order-2"));
    /// let group = client.paused_groups(PausedFilter::default()).await?.remove(0);
    /// assert_eq!((group.count, group.activity.as_str()), (2, "charge"));
    ///
    /// // One decision for all of them.
    /// let all = PausedFilter { fingerprint: Some(group.fingerprint), ..PausedFilter::default() };
    /// let resumed = client.resume_paused(all.clone()).by("ana").await?;
    /// assert_eq!((resumed.counts.changed, resumed.counts.refused), (2, 0));
    /// app.advance(Duration::from_secs(1)).await; // they fail again, and are paused again
    /// let failed = client.fail_paused(all, "the bank is gone").reason("ticket 17").await?;
    /// assert_eq!(failed.to_string(), "2 calls changed");
    /// assert_eq!(first.failure().await.message, "the bank is gone");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn paused_calls(&self, filter: PausedFilter) -> Result<Vec<PausedCall>> {
        let _busy = self.handle().busy();
        let calls = self.handle().store().paused_calls(filter).await;
        calls.map_err(|error| Error::store("list paused calls", error))
    }

    /// Calls that are paused by what they have in common, the largest group first.
    pub async fn paused_groups(&self, filter: PausedFilter) -> Result<Vec<CallGroup>> {
        let _busy = self.handle().busy();
        let groups = self.handle().store().paused_groups(filter).await;
        groups.map_err(|error| Error::store("group paused calls", error))
    }

    /// Lets all of these calls go on; those that used up their attempts with failures counted from
    /// 0 again.
    pub fn resume_paused(&self, filter: PausedFilter) -> BulkAct {
        let limit = filter.limit;
        limited(self.calls(those(filter)).resume().resetting_exhausted(), limit)
    }

    /// Ends all of these calls with a failure, which their workflows get.
    pub fn fail_paused(&self, filter: PausedFilter, message: impl Into<String>) -> BulkAct {
        let limit = filter.limit;
        limited(self.calls(those(filter)).fail(message), limit)
    }

    /// Tries a dead letter again in its run: the run is reset to just before the call, which is
    /// made again with a fresh budget and the same idempotency key. Calls that were made together
    /// with it keep their keys too; what the run called later has new ones when it is called again.
    ///
    /// That needs the current run, failed by the failure of this call. Otherwise it is refused with
    /// the reason, see [`Redrive::as_new`].
    ///
    /// ```
    /// use resurgam::DeadLetterFilter;
    /// use resurgam::prelude::*;
    /// use resurgam::retry::Exhausted;
    /// use resurgam_testing::TestApp;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    ///
    /// static UP: AtomicBool = AtomicBool::new(false);
    ///
    /// #[activity(retry = RetryPolicy::once().on_exhausted(Exhausted::DeadLetter))]
    /// async fn charge(ctx: ActivityContext, order: u64) -> Result<String, Failure> {
    ///     match UP.load(Ordering::SeqCst) {
    ///         true => Ok(ctx.idempotency_key()),
    ///         false => Err(Failure::of_type("BankDown", "no answer")),
    ///     }
    /// }
    ///
    /// #[workflow]
    /// async fn order(ctx: WorkflowContext, number: u64) -> Result<String, Failure> {
    ///     ctx.call(charge(number)).await
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), resurgam::Error> {
    /// let app = TestApp::builder().workflow(order).activity(charge).start().await;
    /// let run = app.start("order-42", order(42)).await;
    /// run.failure().await;
    ///
    /// UP.store(true, Ordering::SeqCst); // the bank is back
    /// let client = app.client();
    /// let letter = client.dead_letters(DeadLetterFilter::default()).await?.remove(0);
    /// let redriven = client.redrive(letter.call).by("ana").reason("the bank is back").await?;
    /// assert_eq!(
    ///     redriven.to_string(),
    ///     "redriven charge#2 of order-42 with the same idempotency key; run 2 goes on from there"
    /// );
    /// // The key is that of the first run.
    /// assert!(run.result().await.unwrap().ends_with("/1/2"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn redrive(&self, call: CallKey) -> Redrive {
        let how = How::default();
        let client = self.clone();
        Redrive { client, call, how, delay: None, by: None, reason: None, request_id: None }
    }

    /// Tries all of these letters again, see [`Client::redrive`] and [`BulkAct::as_new`]. Those
    /// that are open, whatever state the filter names. What is written meanwhile is left alone.
    ///
    /// ```
    /// use resurgam::DeadLetterFilter;
    /// use resurgam::prelude::*;
    /// use resurgam::retry::Exhausted;
    /// use resurgam_testing::TestApp;
    /// use std::time::Duration;
    ///
    /// #[activity(retry = RetryPolicy::once().on_exhausted(Exhausted::DeadLetter))]
    /// async fn charge(order: u64) -> Result<u64, Failure> {
    ///     Err(Failure::of_type("BankDown", "no answer"))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), resurgam::Error> {
    /// let app = TestApp::builder().activity(charge).start().await;
    /// for order in 1..=3 {
    ///     app.submit(&format!("order-{order}"), charge(order)).await?.failure().await;
    /// }
    /// let charges = DeadLetterFilter { activity: Some("charge".into()), ..Default::default() };
    /// let redrive = |client: &resurgam::Client| {
    ///     let all = client.redrive_all(charges.clone()).as_new().by("ana");
    ///     all.spread(Duration::from_secs(60)).reason("the bank is back")
    /// };
    /// let done = app.ask("redrive all", redrive).await?;
    /// assert_eq!(done.to_string(), "3 dead letters redriven");
    /// # Ok(())
    /// # }
    /// ```
    pub fn redrive_all(&self, filter: DeadLetterFilter) -> BulkAct {
        let redrive = RedriveCall { call: Seq::RUN, new_key: false, delay_ms: None };
        self.decide(filter, Action::Redrive(redrive))
    }

    /// Settles all of these letters: nothing is to be done about them. Those that are open,
    /// whatever state the filter names. What is written meanwhile is left alone.
    pub fn discard(&self, filter: DeadLetterFilter) -> BulkAct {
        self.decide(filter, Action::Discard)
    }

    fn decide(&self, filter: DeadLetterFilter, action: Action) -> BulkAct {
        let limit = filter.limit;
        let letters = BulkTarget::Letters(LetterFilter::of(filter));
        limited(BulkAct::new(self, letters, action), limit)
    }

    /// Settles one letter: nothing is to be done about it.
    pub fn discard_one(&self, call: CallKey) -> DiscardOne {
        DiscardOne { client: self.clone(), call, by: None, reason: None }
    }

    /// Who has decided about a letter by now, and what, for people.
    async fn decided_before(&self, letter: &DeadLetter) -> Result<String> {
        let name = named(letter);
        Ok(match self.dead_letter(letter.call).await? {
            Some(now) if now.state != LetterState::Open => format!("{name} was {}", now.decision()),
            Some(_) => format!("the id {} is taken", redriven_id(letter.call)),
            None => format!("the dead letter of {name} was deleted"),
        })
    }
}

/// Paused calls as calls. Where a list goes on means nothing here.
fn those(filter: PausedFilter) -> CallFilter {
    let PausedFilter { fingerprint, activity, since, .. } = filter;
    let status = Some(CallStatus::Paused);
    CallFilter { fingerprint, activity, status, paused_since: since, ..CallFilter::default() }
}

fn limited(act: BulkAct, limit: usize) -> BulkAct {
    if limit == 0 { act } else { act.limit(limit as u64) }
}

/// A dead letter that is about to be tried again; awaiting it does so, and answers with what came
/// of it.
#[must_use = "nothing is done until this is awaited"]
#[derive(Clone, Debug)]
pub struct Redrive {
    client: Client,
    call: CallKey,
    how: How,
    delay: Option<Duration>,
    by: Option<String>,
    reason: Option<String>,
    request_id: Option<String>,
}

/// How letters are tried again.
#[derive(Clone, Copy, Debug, Default)]
struct How {
    as_new: bool,
    new_key: bool,
}

impl Redrive {
    /// Runs the activity once more by itself, with the same arguments, policy and queue, and with
    /// an idempotency key of its own. The workflow that called it hears nothing of it.
    pub fn as_new(mut self) -> Self {
        self.how.as_new = true;
        self
    }

    /// Has the call made again with another idempotency key, for a service that remembers under the
    /// old one that it failed.
    pub fn new_key(mut self) -> Self {
        self.how.new_key = true;
        self
    }

    /// What makes a repeated request one: it gets the first answer. A letter that is redriven as
    /// new is started once whoever asks.
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.request_id = Some(id.into());
        self
    }

    /// Has it begin later: many that are tried again at once would all arrive at the same moment.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// Who does it; the user of the operating system, unless set.
    pub fn by(mut self, by: impl Into<String>) -> Self {
        self.by = Some(by.into());
        self
    }

    /// Why.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }
}

impl IntoFuture for Redrive {
    type Output = Result<Acted>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Acted>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.carried_out())
    }
}

impl Redrive {
    async fn carried_out(self) -> Result<Acted> {
        let Redrive { client, call, how, delay, by, reason, request_id } = self;
        let _busy = client.handle().busy();
        let what = format!("redrive call {call}");
        let refused = |why: String| Ok(Acted::Answered(ActionAnswer::refused(why)));
        let Some(letter) = client.dead_letter(call).await? else {
            return Err(Error::no_letter(&what));
        };
        let name = named(&letter);
        let is_repeated = !how.as_new && request_id.is_some();
        if letter.state != LetterState::Open && !is_repeated {
            return refused(format!("{name} was {}", letter.decision()));
        }
        if !how.as_new {
            let mut act = client.run_of(call.run).act(Action::Redrive(RedriveCall {
                call: call.seq,
                new_key: how.new_key,
                delay_ms: delay.map(millis).filter(|delay| *delay > 0),
            }));
            (act.by, act.reason, act.request_id) = (by, reason, request_id);
            return redriven_in_run(&client, &letter, act).await;
        }
        let trouble = |error| Error::store(&what, error);
        let policy = client.handle().store().policy(&letter.policy).await.map_err(trouble)?;
        let (activity, policy) = (letter.activity.clone(), policy.map(|row| row.text));
        let bare = submit::call_of(activity, &letter.input, policy);
        let input = bare.and_then(|bare| bare.behind(&letter.gate).encoded()).map_err(|error| {
            Error::invalid(format!("{what}: its arguments cannot be read: {error}"))
        })?;
        let by = by.unwrap_or_else(os_user);
        let mut options = StartOptions {
            id: redriven_id(call),
            if_exists: IfExists::Refuse,
            queue: Some(letter.queue.clone()),
            redrives: Some(Box::new(resurgam_worker::Redrive { call, by, reason })),
            ..StartOptions::default()
        };
        options.settings.delay_ms = delay.map(millis);
        match client.handle().start(submit::NAME, input, options).await {
            Err(error) if error.is_overtaken() || error.is_already_exists() => {
                refused(client.decided_before(&letter).await?)
            }
            Err(error) => Err(error),
            Ok(started) => {
                let text = format!("redriven {name} as {}", started.id);
                Ok(Acted::Answered(ActionAnswer::done(text)))
            }
        }
    }
}

/// Has a letter tried again in its run. What is refused can be tried by itself, which the answer
/// says.
async fn redriven_in_run(client: &Client, letter: &DeadLetter, act: Act) -> Result<Acted> {
    let why = match act.await {
        Ok(Acted::Answered(answer)) if !answer.changed => answer.text,
        Err(error) if error.is_unknown() => "its instance was deleted".to_string(),
        acted => return acted,
    };
    let is_open = |letter: &DeadLetter| letter.state == LetterState::Open;
    if !client.dead_letter(letter.call).await?.as_ref().is_some_and(is_open) {
        return Ok(Acted::Answered(ActionAnswer::refused(client.decided_before(letter).await?)));
    }
    let (name, activity) = (named(letter), &letter.activity);
    Ok(Acted::Answered(ActionAnswer::refused(format!(
        "{name} is not redriven: {why}; redrive it as new (--as-new) to run {activity} by itself \
         with the same arguments"
    ))))
}

/// A letter as people know it.
fn named(letter: &DeadLetter) -> String {
    format!("{}#{} of {}", letter.activity, letter.call.seq, letter.instance)
}

/// A dead letter that is about to be discarded; awaiting it does so, and answers with what came of
/// it.
#[must_use = "nothing is done until this is awaited"]
#[derive(Clone, Debug)]
pub struct DiscardOne {
    client: Client,
    call: CallKey,
    by: Option<String>,
    reason: Option<String>,
}

impl DiscardOne {
    /// Who does it; the user of the operating system, unless set.
    pub fn by(mut self, by: impl Into<String>) -> Self {
        self.by = Some(by.into());
        self
    }

    /// Why.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    async fn carried_out(self) -> Result<Acted> {
        let DiscardOne { client, call, by, reason } = self;
        let _busy = client.handle().busy();
        let what = format!("discard the dead letter of {call}");
        let Some(letter) = client.dead_letter(call).await? else {
            return Err(Error::no_letter(&what));
        };
        let (at, by) = (client.handle().now(), by.unwrap_or_else(os_user));
        let settled = Settled { at, by, reason, redriven_as: None };
        let write = LetterWrite::Settle { call, state: LetterState::Discarded, settled };
        Ok(Acted::Answered(match client.handle().settle_letter(&what, write).await? {
            true => ActionAnswer::done(format!("discarded {}", named(&letter))),
            false => ActionAnswer::refused(client.decided_before(&letter).await?),
        }))
    }
}

impl IntoFuture for DiscardOne {
    type Output = Result<Acted>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Acted>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.carried_out())
    }
}
