//! Routes what others have inserted into the inbox with plain SQL.
//!
//! Each node routes the rows of instances whose shard it holds. When a shard moves meanwhile, two
//! nodes may have read the same row: the first commit takes it, the other one finds that it is
//! gone.
//!
//! Rows are read in order, a page at a time. Each goes in one commit with what it causes: the row
//! of an instance and the message that begins it, or the message that a signal or a cancellation
//! is. What follows from these is what follows when a client asks. Rows for one instance are routed
//! one after another; those for others do not wait for them.
//!
//! | the row                                     | what follows                                  |
//! |---------------------------------------------|-----------------------------------------------|
//! | makes sense                                 | it goes, with what it causes                  |
//! | has an id that came before                  | it goes                                       |
//! | makes no sense, or its instance does not    | it stays, with the reason                     |

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use resurgam_core::{EventKind, Payload, Timestamp, Uid, identifier};
use resurgam_store::rows::{InstanceRow, Message as StoredMessage, MessageRow};
use resurgam_store::{InboxRow, InboxWrite, InstanceWrite, MessageWrite, Replaces, Result, Step};

use super::schedule::CannotBegin;
use crate::node::Node;
use crate::node::coalesced_read::CoalescedRead;
use crate::node::input::Addressee;
use crate::node::message::{end_message, start_message};
use crate::node::steps::effect::Effect;
use crate::node::steps::refusal::Refusal;
use crate::node::store_request::StoreRequest;

/// How many rows are read at once.
pub(crate) const PAGE: usize = 500;

/// The wait before an inbox that could not be read is read again.
const AGAIN: Duration = Duration::from_secs(1);

/// Rows on their way.
#[derive(Debug, Default)]
pub(crate) struct InboxRouter {
    hearing: CoalescedRead,
    /// When to read again what could not be read.
    next: Option<Timestamp>,
    /// By instance: the first is being routed, the others wait for it.
    lines: BTreeMap<String, VecDeque<InboxRow>>,
    /// There may be more rows than were read.
    more: bool,
    /// Ids are remembered since the last time that old ones were forgotten.
    remembers: bool,
}

impl InboxRouter {
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.next
    }
}

/// What a row asks for.
enum Wish {
    Start { workflow: String, input: Payload },
    Signal { name: String, value: Payload },
    Cancel { reason: String },
}

impl Node {
    /// Reads the inbox when it is time to do so again.
    pub(crate) fn wake_inbox(&mut self) {
        let now = self.now;
        if self.memory.inbox.next.is_some_and(|at| at <= now) {
            self.look_into_inbox();
        }
    }

    /// Reads what others have inserted; while rows are on their way, after them.
    pub(crate) fn look_into_inbox(&mut self) {
        if !self.is_owner() || self.stopping.is_some() {
            return;
        }
        self.memory.inbox.next = None;
        if !self.memory.inbox.lines.is_empty() {
            self.memory.inbox.more = true;
            return;
        }
        if self.memory.inbox.hearing.begin(&mut self.ticks).is_none() {
            return;
        }
        self.ask_store(StoreRequest::Inbox);
    }

    pub(crate) fn inbox_read(&mut self, found: Result<Vec<InboxRow>>) {
        let again = self.memory.inbox.hearing.end();
        if !self.is_owner() {
            return;
        }
        let rows = found.unwrap_or_else(|_| {
            self.memory.inbox.next = Some(self.now.saturating_add(AGAIN));
            Vec::new()
        });
        self.memory.inbox.more = again || rows.len() == PAGE;
        for row in rows {
            self.memory.inbox.lines.entry(row.instance.clone()).or_default().push_back(row);
        }
        let instances: Vec<String> = self.memory.inbox.lines.keys().cloned().collect();
        instances.iter().for_each(|instance| self.route_next(instance));
        if self.memory.inbox.lines.is_empty() {
            self.page_routed();
        }
    }

    /// Everything that was read is routed: reads on, and forgets what is old.
    fn page_routed(&mut self) {
        if std::mem::take(&mut self.memory.inbox.remembers) {
            let before = self.now.saturating_sub(self.options.inbox_memory);
            let inbox = Some(InboxWrite::Forget { before }.into());
            self.outbox.push(Step { inbox, ..Step::default() }, Vec::new());
        }
        if std::mem::take(&mut self.memory.inbox.more) {
            self.look_into_inbox();
        }
    }

    /// Routes the first row of an instance.
    fn route_next(&mut self, instance: &str) {
        let line = self.memory.inbox.lines.get(instance);
        let Some(row) = line.and_then(VecDeque::front).cloned() else { return };
        match self.wish(&row) {
            Err(error) => self.refuse_row(&row, &error),
            Ok(Wish::Start { workflow, input }) => self.route_start(row, &workflow, input),
            Ok(Wish::Signal { .. } | Wish::Cancel { .. }) => self.find_addressee(row),
        }
    }

    /// What a row asks for, or why it makes no sense.
    fn wish(&self, row: &InboxRow) -> std::result::Result<Wish, String> {
        if row.instance.is_empty() {
            return Err("the instance is empty; give its id".to_string());
        }
        let names = [("the instance", Some(&row.instance)), ("the name", row.name.as_ref())];
        for (what, name) in names.into_iter().chain([("the id", row.id.as_ref())]) {
            name.map_or(Ok(()), |name| identifier::check(what, name))?;
        }
        let name = |of: &str| match row.name.as_deref() {
            None | Some("") => Err(format!("the name is missing; give that of the {of}")),
            Some(name) => Ok(name.to_string()),
        };
        let (size, most) = (row.body.as_ref().map_or(0, Payload::len), self.options.max_payload);
        if size > most {
            return Err(format!("the body has {size} bytes, {most} are allowed"));
        }
        let body = || match &row.body {
            None => Ok(None),
            Some(body) => match body.decode::<serde_json::Value>() {
                Ok(_) => Ok(Some(body.clone())),
                Err(error) => Err(format!("the body is not JSON: {error}")),
            },
        };
        match row.kind.as_str() {
            "start" => Ok(Wish::Start {
                workflow: name("workflow")?,
                input: body()?.unwrap_or_else(|| Payload::from_text("{}")),
            }),
            "signal" => Ok(Wish::Signal {
                name: name("signal")?,
                value: body()?.unwrap_or_else(Payload::null),
            }),
            "cancel" => {
                let reason = row.body.as_ref().map(Payload::decode::<String>).transpose();
                let reason = reason.map_err(|error| {
                    format!("the body of a cancellation is a reason, a JSON string: {error}")
                })?;
                let reason = reason.unwrap_or_else(|| "asked for through the inbox".to_string());
                Ok(Wish::Cancel { reason })
            }
            kind => Err(format!("the kind {kind:?} is unknown; write start, signal or cancel")),
        }
    }

    fn route_start(&mut self, row: InboxRow, workflow: &str, input: Payload) {
        // A workflow that is unknown here may be known to another node, or to the next version.
        if let Some(CannotBegin::Unreadable(error)) = self.cannot_begin(workflow, &input) {
            return self.refuse_row(&row, &error);
        }
        let uid = self.random.uid(&row.instance, self.now);
        let id = row.instance.clone();
        let instance = InstanceRow::new(uid, id, workflow, input, self.now);
        let insert = InstanceWrite::Insert { row: instance.into(), replaces: Replaces::Nobody };
        let start = start_message(uid);
        self.take_row(row, insert, start);
    }

    /// A signal or a cancellation is for whoever has the id now. A signal with an id may have been
    /// sent before.
    fn find_addressee(&mut self, row: InboxRow) {
        match row.kind == "signal" && row.id.is_some() {
            true => self.ask_store(StoreRequest::Signalled(row)),
            false => self.ask_store(StoreRequest::Addressee(row)),
        }
    }

    pub(crate) fn signalled(&mut self, row: InboxRow, found: std::result::Result<bool, String>) {
        match found {
            Ok(false) => self.ask_store(StoreRequest::Addressee(row)),
            Ok(true) => self.addressee_found(row, Ok(Addressee::HasIt)),
            Err(error) => self.addressee_found(row, Err(error)),
        }
    }

    pub(crate) fn addressee_found(
        &mut self,
        row: InboxRow,
        found: std::result::Result<Addressee, String>,
    ) {
        if !self.is_owner() {
            return;
        }
        let routed = found.and_then(|found| match found {
            Addressee::HasIt => Ok(None),
            Addressee::Nobody => Err("there is no instance of this id".to_string()),
            Addressee::Instance(instance) if instance.status.is_closed() => Err(closed()),
            Addressee::Instance(instance) => Ok(Some(self.message_of(instance.uid, &row)?)),
        });
        match routed {
            Ok(Some(message)) => {
                let is_signal = matches!(message.body, StoredMessage::Signal { .. });
                let signals_below = is_signal.then_some(self.options.max_unread_signals);
                let open = InstanceWrite::Open { uid: message.uid, signals_below };
                self.take_row(row, open, message);
            }
            Ok(None) => self.drop_row(row),
            Err(error) => self.refuse_row(&row, &error),
        }
    }

    fn message_of(&mut self, uid: Uid, row: &InboxRow) -> std::result::Result<MessageRow, String> {
        Ok(match self.wish(row)? {
            Wish::Cancel { reason } => end_message(uid, false, reason),
            Wish::Signal { name, value } => {
                let event = EventKind::SignalReceived {
                    name: name.clone(),
                    value: value.clone(),
                    id: None,
                };
                if let Some(error) = self.refuses(&event) {
                    return Err(error.to_string());
                }
                self.signal_message(uid, row.id.clone(), name, value)
            }
            Wish::Start { .. } => return Err("a start has no addressee".to_string()),
        })
    }

    /// One commit: the row goes, and what it causes is there.
    fn take_row(&mut self, row: InboxRow, write: InstanceWrite, message: MessageRow) {
        let (at, uid) = (self.now, message.uid);
        self.memory.inbox.remembers |= row.id.is_some();
        let step = Step {
            instance: Some(write),
            messages: vec![MessageWrite::Insert(message)],
            inbox: Some(InboxWrite::Take { row: row.clone(), at }.into()),
            ..Step::default()
        };
        self.outbox.push(step, vec![Effect::Wake(uid), Effect::RowTaken(Box::new(row))]);
    }

    /// What the row asks for was done before: it goes.
    fn drop_row(&mut self, row: InboxRow) {
        self.memory.inbox.remembers |= row.id.is_some();
        let inbox = Some(InboxWrite::Take { row: row.clone(), at: self.now }.into());
        let effects = vec![Effect::RowTaken(Box::new(row))];
        self.outbox.push(Step { inbox, ..Step::default() }, effects);
    }

    fn refuse_row(&mut self, row: &InboxRow, error: &str) {
        let error = format!("{} {}: {error}", row.kind, row.instance);
        tracing::warn!(arrival = row.arrival, "a row of the inbox is refused: {error}");
        metrics::counter!("resurgam.inbox_refused").increment(1);
        let inbox = Some(InboxWrite::Refuse { arrival: row.arrival, error }.into());
        let effects = vec![Effect::RowRefused(row.instance.clone())];
        self.outbox.push(Step { inbox, ..Step::default() }, effects);
    }

    pub(crate) fn row_taken(&mut self, row: &InboxRow) {
        metrics::counter!("resurgam.inbox_taken").increment(1);
        self.row_routed(&row.instance);
    }

    /// A row is dealt with: the next one of its instance follows.
    pub(crate) fn row_routed(&mut self, instance: &str) {
        if let Some(line) = self.memory.inbox.lines.get_mut(instance) {
            line.pop_front();
            if line.is_empty() {
                self.memory.inbox.lines.remove(instance);
            }
        }
        self.route_next(instance);
        if self.memory.inbox.lines.is_empty() {
            self.page_routed();
        }
    }

    /// The store did not take a row with what it causes.
    pub(crate) fn row_not_taken(&mut self, row: &InboxRow, refusal: &Refusal) {
        match refusal {
            // It came before, or somebody took it back.
            Refusal::Missed => self.row_routed(&row.instance),
            Refusal::Duplicate => self.refuse_row(row, "an instance of this id exists"),
            Refusal::Closed => self.refuse_row(row, &closed()),
            refusal => self.refuse_row(row, &refusal.to_string()),
        }
    }
}

fn closed() -> String {
    "the instance is closed".to_string()
}
