//! An instance by its uid: what was started, whoever has its id by now.

use resurgam_core::{Event, EventKind, Payload, RunKey, Seq, Uid};
use resurgam_store::EventPage;
use resurgam_store::rows::{ActionRow, AttemptRow, InstanceRow, Message, MessageRow};
use resurgam_worker::{Error, Outcome, Result};
use serde::Serialize;

use crate::client::bad_value;
use crate::{Client, Description};

/// An instance by its uid, for looking and for acting; made by [`Client::instance_of`].
///
/// An id can be used again when its instance has closed. A uid cannot: what is asked here is about
/// the start that was meant, or an error.
///
/// ```
/// use resurgam::prelude::*;
/// use resurgam::Outcome;
///
/// #[workflow]
/// async fn approval(ctx: WorkflowContext) -> Result<u32, Failure> {
///     ctx.signal("approve").await
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), resurgam::Error> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let file = folder.path().join("app.db");
/// let app = App::builder().workflow(approval).sqlite(&file).await?;
/// let paper = app.instance_of(app.start("paper", approval()).await?.uid());
/// assert_eq!(paper.row().await?.id, "paper");
/// assert_eq!(paper.describe().await?.instance.uid, paper.uid());
///
/// paper.signal("approve", &400, Some("mail-17".into())).await?;
/// assert!(matches!(paper.outcome().await?, Outcome::Completed(_)));
/// let (name, value) = paper.signal_sent("mail-17").await?.expect("it was sent");
/// assert_eq!((name.as_str(), value.as_str()), ("approve", "400"));
/// assert!(paper.action("form-1").await?.is_none());
/// let events = paper.events(None).await?;
/// assert_eq!(events, paper.event_page(None, None, 500).await?);
/// assert_eq!(events.last(), paper.events_before(None, None, 1).await?.last());
/// assert!(paper.attempts(None).await?.is_empty() && paper.actions(None).await?.is_empty());
///
/// // The id goes to another instance, and the uid stays with the first.
/// let again = app.start("paper", approval()).replace_closed().await?;
/// let too_late = paper.cancel("a mistake").await.unwrap_err();
/// assert!(too_late.is_closed());
/// paper.delete().await?;
/// assert!(paper.row().await.unwrap_err().is_unknown());
/// app.instance_of(again.uid()).terminate("a mistake").await?;
/// # app.stop().await
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct InstanceHandle {
    client: Client,
    uid: Uid,
}

impl Client {
    /// An instance by its uid. Nothing is asked until something is.
    pub fn instance_of(&self, uid: Uid) -> InstanceHandle {
        InstanceHandle { client: self.clone(), uid }
    }
}

impl InstanceHandle {
    /// The uid.
    pub fn uid(&self) -> Uid {
        self.uid
    }

    /// The instance.
    pub async fn row(&self) -> Result<InstanceRow> {
        self.found("look at").await
    }

    async fn found(&self, verb: &str) -> Result<InstanceRow> {
        let what = format!("{verb} instance {}", self.uid);
        let _busy = self.client.handle().busy();
        let row = self.client.handle().store().instance(self.uid).await;
        row.map_err(|error| Error::store(&what, error))?.ok_or_else(|| Error::no_instance(&what))
    }

    /// What it is waiting for.
    pub async fn describe(&self) -> Result<Description> {
        let row = self.found("describe").await?;
        self.client.description(row).await
    }

    /// The run of this number, or the current one.
    async fn run(&self, verb: &str, run: Option<u32>) -> Result<RunKey> {
        let row = self.found(verb).await?;
        let run = run.unwrap_or(row.run);
        match (1..=row.run).contains(&run) {
            true => Ok(RunKey { uid: self.uid, run }),
            false => Err(Error::no_run(&format!(
                "{verb} instance {}: it has runs 1 to {}, and no run {run}",
                self.uid, row.run
            ))),
        }
    }

    /// The events of a run, the current one unless it is named.
    pub async fn events(&self, run: Option<u32>) -> Result<Vec<Event>> {
        let run = self.run("read the history of", run).await?;
        let _busy = self.client.handle().busy();
        let events = self.client.handle().store().history(run).await;
        let what = || format!("read the history of instance {}", self.uid);
        events.map_err(|error| Error::store(what(), error))
    }

    /// The events of a run behind this place, at most so many.
    pub async fn event_page(
        &self,
        run: Option<u32>,
        after: Option<Seq>,
        limit: usize,
    ) -> Result<Vec<Event>> {
        self.page(run, EventPage::After(after.unwrap_or(Seq::RUN)), limit).await
    }

    /// The last events of a run before this place, or the last of all, at most so many; in order.
    pub async fn events_before(
        &self,
        run: Option<u32>,
        before: Option<Seq>,
        limit: usize,
    ) -> Result<Vec<Event>> {
        self.page(run, EventPage::Before(before), limit).await
    }

    async fn page(&self, run: Option<u32>, page: EventPage, limit: usize) -> Result<Vec<Event>> {
        let run = self.run("read the history of", run).await?;
        let _busy = self.client.handle().busy();
        let events = self.client.handle().store().event_page(run, page, limit).await;
        let what = || format!("read the history of instance {}", self.uid);
        events.map_err(|error| Error::store(what(), error))
    }

    /// The attempts of a run that did not succeed at once, see [`Client::attempts`].
    pub async fn attempts(&self, run: Option<u32>) -> Result<Vec<AttemptRow>> {
        let run = self.run("read the attempts of", run).await?;
        // A first run was not begun by a reset, so nothing of it was copied.
        let events = if run.run == 1 { Vec::new() } else { self.events(Some(run.run)).await? };
        let _busy = self.client.handle().busy();
        let ledger = self.client.ledger_of(run, &events).await;
        ledger.map_err(|error| Error::store(format!("read the attempts of {}", self.uid), error))
    }

    /// What operators did to a run and its calls, in order of time.
    pub async fn actions(&self, run: Option<u32>) -> Result<Vec<ActionRow>> {
        let run = self.run("read what was done to", run).await?;
        let _busy = self.client.handle().busy();
        let actions = self.client.handle().store().actions(run).await;
        actions.map_err(|error| Error::store(format!("read what was done to {}", self.uid), error))
    }

    /// What came of the action with this request id; `None` until somebody has carried it out.
    pub async fn action(&self, request_id: &str) -> Result<Option<ActionRow>> {
        let _busy = self.client.handle().busy();
        let action = self.client.handle().store().action(self.uid, request_id).await;
        let what = || format!("read what request {request_id} did to {}", self.uid);
        action.map_err(|error| Error::store(what(), error))
    }

    /// The name and the value of the signal that was sent to it with this request id.
    pub async fn signal_sent(&self, request_id: &str) -> Result<Option<(String, Payload)>> {
        let row = self.found("look for a signal to").await?;
        let what = || format!("look for a signal to instance {}", self.uid);
        let trouble = |error| Error::store(what(), error);
        let busy = self.client.handle().busy();
        let store = self.client.handle().store();
        if !store.signalled(&row.id, request_id).await.map_err(trouble)? {
            return Ok(None);
        }
        let id = format!("{}{request_id}", MessageRow::REPEATABLE_SIGNAL);
        let messages = store.messages(self.uid).await.map_err(trouble)?;
        let unread = messages.into_iter().find(|message| message.id == id);
        if let Some(Message::Signal { name, value }) = unread.map(|message| message.body) {
            return Ok(Some((name, value)));
        }
        drop(busy);
        let events = self.events(None).await?;
        Ok(events.into_iter().find_map(|event| match event.kind {
            EventKind::SignalReceived { name, value, id } if id.as_deref() == Some(request_id) => {
                Some((name, value))
            }
            _ => None,
        }))
    }

    /// Waits for the end.
    pub async fn outcome(&self) -> Result<Outcome> {
        self.client.handle().outcome(self.uid).await
    }

    /// Sends it a signal; with a request id it is taken once, however often it is sent.
    pub async fn signal(
        &self,
        name: &str,
        value: &impl Serialize,
        request_id: Option<String>,
    ) -> Result<()> {
        let what = format!("signal {name} to instance {}", self.uid);
        let value = Payload::encode(value).map_err(|error| bad_value(what.clone(), error))?;
        self.client.handle().signal_instance(&what, self.uid, name, value, request_id).await
    }

    /// Asks it to end.
    pub async fn cancel(&self, reason: &str) -> Result<()> {
        let event = EventKind::CancelRequested { reason: reason.to_string() };
        let what = format!("cancel instance {}", self.uid);
        self.client.handle().tell_instance(&what, self.uid, event).await
    }

    /// Ends it at once: its code does not hear of it, and nothing is undone.
    pub async fn terminate(&self, reason: &str) -> Result<()> {
        let event = EventKind::TerminateRequested { reason: reason.to_string() };
        let what = format!("terminate instance {}", self.uid);
        self.client.handle().tell_instance(&what, self.uid, event).await
    }

    /// Deletes it with everything of it, once it is closed.
    pub async fn delete(&self) -> Result<()> {
        self.client.handle().delete_instance(self.uid).await
    }
}
