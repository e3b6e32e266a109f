//! Talking to an engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use resurgam_core::command::Settings;
use resurgam_core::{
    CallKey, EventKind, Failure, Payload, RunKey, Seq, Timestamp, Uid, identifier,
};
use resurgam_sdk::Registry;
use resurgam_store::rows::{InstanceRow, Owner, Status};
use resurgam_store::{LetterWrite, Replaces, Report, Staleness, Store};
use serde::de::DeserializeOwned;
use tokio::sync::{oneshot, watch};

use crate::clock::{Busy, Clock};
use crate::error::{Error, Result};
use crate::mailbox::{Mail, Mailbox};
use crate::node::{Answers, Reply, Request, Waiter};
use crate::random::Random;

/// Talks to an engine. Cloning gives another handle to the same one.
#[derive(Clone)]
pub struct Handle {
    mailbox: Mailbox,
    store: Arc<dyn Store>,
    registry: Arc<Registry>,
    clock: Arc<dyn Clock>,
    owns: watch::Receiver<bool>,
    works: bool,
}

/// How an instance is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartOptions {
    /// The id.
    pub id: String,
    /// What makes a repeated start the same one.
    pub request_id: Option<String>,
    /// What follows when there is an instance of this id already.
    pub if_exists: IfExists,
    /// Where its activities run that name no queue.
    pub queue: Option<String>,
    /// Tasks of instances with a higher one go first.
    pub priority: i32,
    /// What people look it up by.
    pub tags: BTreeMap<String, String>,
    /// What holds for as long as it lives.
    pub settings: Settings,
    /// The schedule that starts it.
    pub schedule: Option<String>,
    /// The dead letter that it tries again, which is settled in the same commit.
    pub redrives: Option<Box<Redrive>>,
}

/// Who tries a dead letter again, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redrive {
    /// The call that was given up.
    pub call: CallKey,
    /// Who.
    pub by: String,
    /// Why.
    pub reason: Option<String>,
}

/// What follows when an instance is started whose id is taken.
///
/// ```
/// use resurgam_worker::IfExists;
///
/// assert_eq!(IfExists::default(), IfExists::Refuse);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfExists {
    /// An error.
    #[default]
    Refuse,
    /// An instance that is open is the answer; a closed one is an error.
    UseRunning,
    /// A closed instance gives up the id; one that is open is an error.
    ReplaceClosed,
    /// An instance that is open is the answer; a closed one gives up the id.
    UseRunningOrReplace,
}

impl IfExists {
    /// Who gives up the id.
    pub(crate) fn replaces(self) -> Replaces {
        match self {
            IfExists::ReplaceClosed | IfExists::UseRunningOrReplace => Replaces::Closed,
            IfExists::Refuse | IfExists::UseRunning => Replaces::Nobody,
        }
    }

    /// Whether an instance that is open is the answer.
    pub(crate) fn uses_running(self) -> bool {
        matches!(self, IfExists::UseRunning | IfExists::UseRunningOrReplace)
    }
}

/// An instance that was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// The id.
    pub id: String,
    /// What identifies this start for ever.
    pub uid: Uid,
    /// Its run.
    pub run: u32,
}

/// How an instance ended.
///
/// ```
/// use resurgam_core::{Failure, Payload};
/// use resurgam_worker::Outcome;
///
/// fn tell(outcome: &Outcome) -> String {
///     match outcome {
///         Outcome::Completed(result) => format!("done: {result}"),
///         Outcome::Failed(failure) => format!("failed: {failure}"),
///         Outcome::Cancelled(failure) => format!("cancelled: {failure}"),
///         Outcome::Terminated(failure) => format!("terminated: {failure}"),
///     }
/// }
/// assert_eq!(tell(&Outcome::Completed(Payload::encode(&7).unwrap())), "done: 7");
/// assert_eq!(tell(&Outcome::Failed(Failure::new("no stock"))), "failed: no stock");
///
/// let failed = Outcome::Failed(Failure::new("no stock")).into_result::<u32>("order-42");
/// assert_eq!(failed.unwrap_err().to_string(), "order-42 failed: no stock");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Its workflow returned a value.
    Completed(Payload),
    /// Its workflow returned a failure.
    Failed(Failure),
    /// It ended because it was cancelled.
    Cancelled(Failure),
    /// It was ended where it stood, without its code being asked.
    Terminated(Failure),
}

impl Outcome {
    /// The value that the instance of this id returned, or an error with its failure.
    pub fn into_result<T: DeserializeOwned>(self, id: &str) -> Result<T> {
        match self {
            Outcome::Completed(result) => result.decode().map_err(|error| {
                let message = format!("the result does not fit the type asked for: {error}");
                Error::failed(id, Failure::terminal(message))
            }),
            Outcome::Failed(failure)
            | Outcome::Cancelled(failure)
            | Outcome::Terminated(failure) => Err(Error::failed(id, failure)),
        }
    }

    /// The status of an instance that ended so.
    pub(crate) fn status(&self) -> Status {
        match self {
            Outcome::Completed(_) => Status::Completed,
            Outcome::Failed(_) => Status::Failed,
            Outcome::Cancelled(_) => Status::Cancelled,
            Outcome::Terminated(_) => Status::Terminated,
        }
    }

    /// What the workflow hears that started it as its child.
    pub(crate) fn for_parent(&self, child: Seq) -> EventKind {
        match self {
            Outcome::Completed(result) => {
                EventKind::ChildCompleted { child, result: result.clone() }
            }
            Outcome::Failed(failure)
            | Outcome::Cancelled(failure)
            | Outcome::Terminated(failure) => {
                EventKind::ChildFailed { child, failure: failure.clone() }
            }
        }
    }

    /// The form that is stored: the value, or the failure.
    pub(crate) fn to_payload(&self) -> Payload {
        match self {
            Outcome::Completed(result) => result.clone(),
            Outcome::Failed(failure)
            | Outcome::Cancelled(failure)
            | Outcome::Terminated(failure) => {
                Payload::encode(failure).unwrap_or_else(|_| Payload::null())
            }
        }
    }

    /// The outcome of a closed instance.
    pub(crate) fn of(row: &InstanceRow) -> Option<Self> {
        let outcome = row.outcome.clone()?;
        let failure = || outcome.decode().unwrap_or_else(|_| Failure::new(outcome.as_str()));
        match row.status {
            Status::Completed => Some(Outcome::Completed(outcome)),
            Status::Failed => Some(Outcome::Failed(failure())),
            Status::Cancelled => Some(Outcome::Cancelled(failure())),
            Status::Terminated => Some(Outcome::Terminated(failure())),
            Status::Running | Status::Blocked | Status::Paused => None,
        }
    }
}

impl Handle {
    pub(crate) fn new(
        mailbox: Mailbox,
        store: Arc<dyn Store>,
        registry: Arc<Registry>,
        clock: Arc<dyn Clock>,
        owns: watch::Receiver<bool>,
        works: bool,
    ) -> Self {
        Handle { mailbox, store, registry, clock, owns, works }
    }

    /// True when this process works on the store, or would; false when it only asks, and knows no
    /// workflows and activities.
    pub fn works(&self) -> bool {
        self.works
    }

    /// Waits until it is known whether this process works on the store. The error is the store's,
    /// when that refuses to say.
    pub async fn settled(&self) -> Result<()> {
        self.ask("ask who works on the store", |reply| Request::Settle { reply }).await
    }

    /// True while this process works on the store; otherwise another one does, or none.
    pub fn is_owner(&self) -> bool {
        *self.owns.borrow()
    }

    /// Waits until this process works on the store.
    pub async fn until_owner(&self) -> Result<()> {
        let mut owns = self.owns.clone();
        let waited = owns.wait_for(|owns| *owns).await;
        waited.map(drop).map_err(|_| Error::stopped("wait until this process works on the store"))
    }

    /// Who works on the store.
    pub async fn owner(&self) -> Result<Option<Owner>> {
        let owner = self.store.owner().await;
        owner.map_err(|error| Error::store("ask who works on the store", error))
    }

    /// All who work on the store, as far as it is known that they are not dead.
    pub async fn nodes(&self) -> Result<Vec<Owner>> {
        let nodes = self.store.nodes().await;
        nodes.map_err(|error| Error::store("ask who works on the store", error))
    }

    /// Why what is read may not be the latest; `None` where everything is read that was
    /// acknowledged.
    pub async fn staleness(&self) -> Result<Option<Staleness>> {
        let staleness = self.store.staleness().await;
        staleness.map_err(|error| Error::store("ask how old what is read may be", error))
    }

    /// The store, for looking.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The workflows and activities.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Says that there may be activities now that were not there before.
    pub fn activities_changed(&self) {
        self.mailbox.send(Request::LookForWork);
    }

    /// Stores what an attempt has to say that is waited for in another process, which hears of it.
    /// It is durable when the answer is there; it is asked for at once, so that many are stored
    /// together.
    pub fn report(&self, run: RunKey, report: Report) -> impl Future<Output = Result<()>> {
        let report = Box::new(report);
        self.ask("store a report", move |reply| Request::Report { run, report, reply })
    }

    /// A name that nobody had before.
    pub fn new_name(&self) -> String {
        Random::from_entropy().name(self.now())
    }

    /// Waits that long, by the clock of the engine. Work is under way while the answer exists.
    pub async fn sleep(&self, time: std::time::Duration) -> Busy {
        self.clock.sleep(time).await
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Starts an instance. It is durable when this returns.
    pub async fn start(
        &self,
        workflow: &str,
        input: Payload,
        options: StartOptions,
    ) -> Result<Started> {
        if options.id.is_empty() {
            return Err(Error::invalid(format!("start {workflow}: an empty id is not allowed")));
        }
        options.check(workflow)?;
        let (id, request_id) = (options.id.clone(), options.request_id.clone());
        let if_exists = options.if_exists;
        let what = format!("start {id}");
        let workflow = workflow.to_string();
        let request = |reply| Request::Start { workflow, input, options, reply };
        match self.ask(&what, request).await {
            Err(error) if error.is_already_exists() => {
                self.first_answer(&id, request_id.as_deref(), if_exists).await?.ok_or(error)
            }
            answer => answer,
        }
    }

    /// Stores what somebody decided about a dead letter. It is durable when this returns; false
    /// when the letter is not open.
    pub async fn settle_letter(&self, what: &str, letter: LetterWrite) -> Result<bool> {
        let letter = Box::new(letter);
        match self.ask(what, |reply| Request::SettleLetter { letter, reply }).await {
            Err(error) if error.is_overtaken() => Ok(false),
            settled => settled.map(|()| true),
        }
    }

    /// What the first start with this request id answered, or the instance that is open.
    async fn first_answer(
        &self,
        id: &str,
        request_id: Option<&str>,
        if_exists: IfExists,
    ) -> Result<Option<Started>> {
        let _busy = self.busy();
        let trouble = |error| Error::store(format!("start {id}"), error);
        let mut found = None;
        if let Some(request_id) = request_id {
            // Its id may have gone to a later instance by now.
            found = self.store.find_request(request_id).await.map_err(trouble)?;
        }
        if found.is_none() && if_exists.uses_running() {
            let row = self.store.find(id).await.map_err(trouble)?;
            found = row.filter(|row| !row.status.is_closed());
        }
        Ok(found.map(|row| Started { id: row.id, uid: row.uid, run: row.run }))
    }

    /// Sends a signal to an open instance. It is durable when this returns. With a `request_id`, a
    /// repeated signal is one.
    pub async fn signal(
        &self,
        id: &str,
        name: &str,
        value: Payload,
        request_id: Option<String>,
    ) -> Result<()> {
        let what = format!("signal {name} to {id}");
        given(&what, "the name", name)?;
        if let Some(request_id) = &request_id {
            given(&what, "the id", id)?;
            given(&what, "the request id", request_id)?;
            // The instance may be closed by now, or its id another one's: the answer is the first.
            let _busy = self.busy();
            let sent = self.store.signalled(id, request_id).await;
            if sent.map_err(|error| Error::store(&what, error))? {
                return Ok(());
            }
        }
        let event = EventKind::SignalReceived { name: name.to_string(), value, id: request_id };
        let sent = self.tell(&what, id, event).await;
        sent.map_err(|error| if error.is_full() { error.within(&what) } else { error })
    }

    /// Sends a signal to the instance of this uid, whoever has its id by now. With a request id it
    /// is taken once, however often it is sent.
    pub async fn signal_instance(
        &self,
        what: &str,
        uid: Uid,
        name: &str,
        value: Payload,
        request_id: Option<String>,
    ) -> Result<()> {
        given(what, "the name", name)?;
        if let Some(request_id) = &request_id {
            given(what, "the request id", request_id)?;
            let _busy = self.busy();
            let trouble = |error| Error::store(what, error);
            let row = self.store.instance(uid).await.map_err(trouble)?;
            let row = row.ok_or_else(|| Error::no_instance(what))?;
            if self.store.signalled(&row.id, request_id).await.map_err(trouble)? {
                return Ok(());
            }
        }
        let event = EventKind::SignalReceived { name: name.to_string(), value, id: request_id };
        let sent = self.tell_instance(what, uid, event).await;
        sent.map_err(|error| if error.is_full() { error.within(what) } else { error })
    }

    /// Asks an open instance to end. The wish is durable when this returns.
    pub async fn cancel(&self, id: &str, reason: &str) -> Result<()> {
        let event = EventKind::CancelRequested { reason: reason.to_string() };
        self.tell(&format!("cancel {id}"), id, event).await
    }

    /// Ends an open instance at once: its code does not hear of it, and nothing is undone. Durable
    /// when this returns.
    pub async fn terminate(&self, id: &str, reason: &str) -> Result<()> {
        let event = EventKind::TerminateRequested { reason: reason.to_string() };
        self.tell(&format!("terminate {id}"), id, event).await
    }

    /// Gives news to an open instance.
    async fn tell(&self, what: &str, id: &str, event: EventKind) -> Result<()> {
        let (row, busy) = self.open_instance(what, id).await?;
        let answer =
            self.ask(what, |reply| Request::Tell { uid: row.uid, run: row.run, event, reply });
        drop(busy);
        answer.await
    }

    /// Hands an event to the open instance of this uid, whoever has its id by now.
    pub async fn tell_instance(&self, what: &str, uid: Uid, event: EventKind) -> Result<()> {
        let busy = self.busy();
        let found = self.store.instance(uid).await.map_err(|error| Error::store(what, error))?;
        let row = open(what, found)?;
        let answer =
            self.ask(what, |reply| Request::Tell { uid: row.uid, run: row.run, event, reply });
        drop(busy);
        answer.await
    }

    /// What changes whenever something of an instance is durable, here or in another process.
    pub async fn watch(&self, uid: Uid) -> Result<watch::Receiver<()>> {
        let (reply, watched) = oneshot::channel();
        let watched = self.answered("look at an instance", watched);
        self.mailbox.send(Mail::Watch { uid, reply });
        watched.await
    }

    /// Waits until an instance is closed.
    pub async fn outcome(&self, uid: Uid) -> Result<Outcome> {
        let what = format!("wait for the outcome of instance {uid}");
        self.ask(&what, |reply| Request::Wait { uid, reply }).await
    }

    /// Stops the engine: no new attempts, a grace period for those that run, then the rest is
    /// interrupted and recorded.
    pub async fn stop(&self) -> Result<()> {
        self.ask("stop", |reply| Request::Stop { reply }).await
    }

    /// Waits until the engine has ended. The error says why it did so without being told to: its
    /// database was removed.
    pub async fn ended(&self) -> Result<()> {
        let mut owns = self.owns.clone();
        // Nothing but the end of the engine closes it.
        while owns.changed().await.is_ok() {}
        match self.store.gone() {
            Some(gone) => Err(gone.into()),
            None => Ok(()),
        }
    }

    /// Says that a read is under way, for clocks that want to know.
    pub fn busy(&self) -> Busy {
        self.clock.busy(&"a read of a client")
    }

    /// The open instance of this id. What follows is part of the same work.
    async fn open_instance(&self, what: &str, id: &str) -> Result<(InstanceRow, Busy)> {
        given(what, "the id", id)?;
        let busy = self.busy();
        let found = self.store.find(id).await.map_err(|error| Error::store(what, error))?;
        Ok((open(what, found)?, busy))
    }

    /// The clock.
    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Sends a request at once, and answers when the engine does.
    pub(crate) fn ask<T: Answers>(
        &self,
        what: &str,
        request: impl FnOnce(Reply<T>) -> Request,
    ) -> impl Future<Output = Result<T>> {
        let (sender, answer) = oneshot::channel();
        // Whoever asked may have gone; nobody else is interested in the answer.
        let then = move |answer| drop(sender.send(answer));
        let (reply, waiter) = Waiter::new(self.mailbox.next_request(), then);
        let answer = self.answered(what, answer);
        self.mailbox.send(Mail::Request(request(reply), waiter));
        async move { answer.await? }
    }

    /// What the engine answers, or that nobody does any more.
    fn answered<T>(
        &self,
        what: &str,
        answer: oneshot::Receiver<T>,
    ) -> impl Future<Output = Result<T>> {
        let awaits = self.clock.awaits(&what);
        let store = self.store.clone();
        async move {
            let answer = answer.await.map_err(|_| stopped(&*store, what));
            drop(awaits);
            answer
        }
    }
}

/// The instance that was found, if it is open.
fn open(what: &str, found: Option<InstanceRow>) -> Result<InstanceRow> {
    match found {
        None => Err(Error::unknown(format!("{what}: there is no instance of this id"))),
        Some(row) if row.status.is_closed() => {
            let status = row.status.name();
            Err(Error::closed(format!("{what}: the instance is closed ({status})")))
        }
        Some(row) => Ok(row),
    }
}

/// Why there is nobody to answer any more.
fn stopped(store: &dyn Store, what: &str) -> Error {
    match store.gone() {
        Some(gone) => Error::store(what, gone),
        None => Error::stopped(what),
    }
}

/// An id, a key or a name that somebody gives. What was attempted may hold it, and is cut short.
pub(crate) fn given(attempted: &str, what: &str, text: &str) -> Result<()> {
    identifier::check(what, text).map_err(|error| {
        let attempted: String = attempted.chars().take(60).collect();
        Error::invalid(format!("{}: {error}", attempted.replace('\0', "\\0")))
    })
}

/// What is wrong with the names that an instance is to be started with, now or by a schedule.
pub(crate) fn given_names(
    attempted: &str,
    workflow: &str,
    queue: Option<&str>,
    tags: &BTreeMap<String, String>,
) -> Result<()> {
    given(attempted, "the workflow", workflow)?;
    queue.map_or(Ok(()), |queue| given(attempted, "the queue", queue))?;
    for (name, value) in tags {
        given(attempted, "the tag", name)?;
        given(attempted, &format!("the value of the tag {name:?}:"), value)?;
    }
    Ok(())
}

impl StartOptions {
    /// What is wrong with the names in it.
    pub(crate) fn check(&self, workflow: &str) -> Result<()> {
        let attempted = format!("start {workflow}");
        given(&attempted, "the id", &self.id)?;
        let request_id = self.request_id.as_deref();
        request_id.map_or(Ok(()), |id| given(&attempted, "the request id", id))?;
        given_names(&attempted, workflow, self.queue.as_deref(), &self.tags)
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handle")
    }
}
