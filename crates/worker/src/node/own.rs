//! Who works on the store: this node, or another one that it stands by for.
//!
//! | role    | what it does                                                                     |
//! |---------|----------------------------------------------------------------------------------|
//! | asking  | nothing yet: requests wait until it is known who works                           |
//! | client  | stores what is asked for as rows that wake the owner; stands by if it may work   |
//! | owner   | everything                                                                       |
//!
//! A store has one owner. The right to work is the store's to give and lasts as long as the
//! process does, so there is nothing to renew, and a node that stands by takes over at once. An
//! owner that was overtaken all the same (its lock was removed under it) can write nothing any
//! more; it forgets everything and stands by.
//!
//! Nobody tells anybody anything but through the store: each side looks when somebody else has
//! committed. Then the owner reads the messages that are due, and a client whether what it waits
//! for is closed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use resurgam_core::{RunKey, Shard, Uid};
use resurgam_store::rows::{DueMessage, InstanceRow, Message as StoredMessage, MessageRow, Owner};
use resurgam_store::{InstanceWrite, MessageWrite, Result, Step};

use super::commit::{Pending, Refusal};
use super::effect::Effect;
use super::memory::Memory;
use super::message::{news_of, start_message};
use super::output::Output;
use super::read::Read;
use super::request::Reply;
use super::run::{News, Origin};
use super::{At, Node};
use crate::error::Error;
use crate::handle::Outcome;

/// How often a node that stands by looks whether it may work.
const STAND_BY: Duration = Duration::from_millis(20);

/// How many due messages are read at once.
pub(crate) const DUE: usize = 10_000;

/// What this node is to the store.
#[derive(Debug)]
pub(super) enum Role {
    /// That is not known yet.
    Asking,
    /// Somebody else works, or nobody.
    Client,
    /// It works.
    Owner,
}

/// Whether a node may work, as the store says.
#[derive(Debug)]
pub enum RoleAnswer {
    /// It may, on these shards.
    Taken(Vec<Shard>),
    /// Somebody else does.
    Held(Owner),
}

/// What is being read because somebody else has committed. One read at a time: what changes
/// meanwhile is read after it.
#[derive(Debug, Default)]
pub(super) struct Hearing {
    /// The read that is under way.
    reading: Option<u64>,
    again: bool,
}

impl Node {
    pub(super) fn is_owner(&self) -> bool {
        matches!(self.role, Role::Owner)
    }

    /// What this node can run: its workflows. A program that has none submits activities, and knows
    /// those; but one that serves chosen queues runs activities for others.
    fn known_work(&self) -> Arc<[String]> {
        let workflows = self.registry.known_workflows();
        if !workflows.is_empty() || self.options.queues.is_some() {
            return workflows;
        }
        self.registry.activity_names().iter().map(|name| format!("@ {name}")).collect()
    }

    /// Asks for the right to work, again and again until it is granted.
    pub(super) fn ask_to_own(&mut self) {
        match self.options.work {
            true => self.try_to_own(Duration::ZERO),
            false => self.stands_by(),
        }
    }

    fn try_to_own(&mut self, after: Duration) {
        let node = resurgam_store::Node {
            name: self.name.clone(),
            queues: self.options.queues.clone(),
            workflows: Some(self.known_work()),
        };
        self.outputs.push(Output::TryOwn { node, after });
    }

    /// The store said whether this node works, or did not answer.
    pub(super) fn role_known(&mut self, answer: Result<RoleAnswer>) {
        match answer {
            Ok(RoleAnswer::Taken(shards)) => self.owns_now(&shards),
            Ok(RoleAnswer::Held(owner)) => {
                if !self.knows_owner {
                    tracing::info!("standing by: the store is owned by {owner}");
                    self.knows_owner = true;
                    self.stands_by();
                }
                self.try_to_own(STAND_BY);
            }
            Err(error) => {
                // That the trouble is over is to be heard, too.
                self.knows_owner = false;
                self.role_unknown(&error);
                self.try_to_own(STAND_BY);
            }
        }
    }

    /// This node works.
    fn owns_now(&mut self, shards: &[Shard]) {
        // Who is alone on a file, and always was, need not be told.
        match self.is_shared || matches!(self.role, Role::Client) {
            true => tracing::info!(node = %self.name, "this node works on the store"),
            false => tracing::debug!(node = %self.name, "this node works on the store"),
        }
        self.take_role(Role::Owner);
        self.gain(shards);
        self.answer_early();
    }

    /// Somebody else works, or nobody.
    fn stands_by(&mut self) {
        if matches!(self.role, Role::Asking) {
            self.take_role(Role::Client);
        }
        self.answer_early();
    }

    /// What was asked before it was known whether this node works.
    fn answer_early(&mut self) {
        for reply in std::mem::take(&mut self.early.settled) {
            reply.send(Ok(()));
        }
        for request in std::mem::take(&mut self.early.requests) {
            self.request(request);
        }
    }

    /// Another role: what was in memory for the one before, and what is being read for it, is worth
    /// nothing any more. Answers with what was in memory.
    fn take_role(&mut self, role: Role) -> Memory {
        self.tenure += 1;
        let standing = self.memory.shards.standing();
        let memory = Memory::new(&self.options, &self.registry, standing, self.now);
        let before = std::mem::replace(&mut self.memory, memory);
        self.role = role;
        // What others have closed meanwhile, nobody in this process has heard of.
        self.look_for_ends();
        before
    }

    /// The store does not say who works. Whoever waits for that hears of it; asking goes on.
    fn role_unknown(&mut self, error: &resurgam_store::Error) {
        for reply in std::mem::take(&mut self.early.settled) {
            reply.send(Err(match error.is_transient() {
                true => Error::transient(error),
                false => Error::rejected(error),
            }));
        }
    }

    /// Answers when it is known whether this node works.
    pub(super) fn settle(&mut self, reply: Reply<()>) {
        match self.role {
            Role::Asking => self.early.settled.push(reply),
            _ => reply.send(Ok(())),
        }
    }

    /// Another node works on the store by now: everything in memory is worth nothing.
    pub(super) fn step_down(&mut self, fenced: Vec<Pending>) {
        let was_owner = self.is_owner();
        let ready = if was_owner { self.outbox.take_ready() } else { Vec::new() };
        for effect in fenced.into_iter().chain(ready).flat_map(|pending| pending.effects) {
            effect.fails(&Refusal::Fenced);
        }
        if !was_owner {
            return;
        }
        tracing::error!(node = %self.name, "another node works on the store; standing by");
        self.outbox.abandon();
        self.outbox.forget_policies();
        // Claims of the node that it was count as lost, like those of any other.
        self.name = self.random.name(self.now);
        let Memory { runs, asleep, .. } = self.take_role(Role::Asking);
        runs.into_values().for_each(|run| fail_news(run.into_news()));
        asleep.into_values().for_each(|asleep| fail_news(asleep.held));
        self.knows_owner = false;
        self.outputs.push(Output::StepDown);
    }

    /// Somebody else has committed, or the right to work is gone.
    pub fn others_committed(&mut self, at: At, is_overtaken: bool) {
        self.at(at);
        if self.is_owner() && is_overtaken {
            return self.step_down(Vec::new());
        }
        self.look();
    }

    /// Somebody else has committed: looks for what concerns this node.
    fn look(&mut self) {
        self.outputs.push(Output::AnythingChanged);
        match self.role {
            Role::Owner => {
                self.look_for_messages();
                self.look_at_schedules();
                self.look_into_inbox();
                self.look_for_ends();
                self.look_for_shared();
            }
            _ => self.look_for_ends(),
        }
    }

    /// Reads which instances have messages of others.
    fn look_for_messages(&mut self) {
        if self.memory.messages_heard.begin(&mut self.outbox.ticks).is_some() {
            self.read(self.due_messages());
        }
    }

    fn due_messages(&self) -> Read {
        Read::DueMessages { until: self.now.saturating_add(Duration::from_millis(1)) }
    }

    /// Instances that have messages are woken, or read them now.
    pub(super) fn heard(&mut self, found: Result<Vec<DueMessage>>) {
        match found {
            Ok(found) => {
                let again = self.memory.messages_heard.end();
                let (reports, others): (Vec<DueMessage>, _) =
                    found.into_iter().partition(|message| message.is_report);
                let uids = |found: Vec<DueMessage>| -> BTreeSet<Uid> {
                    found.iter().map(|message| message.uid).collect()
                };
                uids(reports).into_iter().for_each(|uid| self.has_reports(uid));
                uids(others).into_iter().for_each(|uid| self.has_messages(uid));
                if again {
                    self.look_for_messages();
                }
            }
            Err(_) => {
                self.read_later(self.due_messages());
            }
        }
    }

    /// There are messages for an instance that this engine may not know of.
    pub(super) fn has_messages(&mut self, uid: Uid) {
        if !self.owns(uid) {
            return;
        }
        match self.memory.blocked.get_mut(&uid) {
            // Looking costs little, and somebody may want to end it.
            Some(tries) if tries.waits_for_code() => tries.now(),
            Some(_) => return self.park(uid),
            None => {}
        }
        if self.memory.runs.contains_key(&uid) {
            return self.read_messages(uid);
        }
        match self.memory.asleep.get_mut(&uid).filter(|asleep| asleep.loading) {
            Some(asleep) => asleep.missed = true,
            None => self.load_run(uid),
        }
    }

    /// Reads the messages of a run in memory, once more if they are being read.
    pub(super) fn read_messages(&mut self, uid: Uid) {
        let Some(run) = self.memory.runs.get_mut(&uid) else { return };
        if let Some(read) = run.hearing.begin(&mut self.outbox.ticks) {
            self.read_of(uid, self.messages_of(uid, read));
        }
    }

    fn messages_of(&self, uid: Uid, read: u64) -> Read {
        Read::MessagesOf { uid, read, until: self.now.saturating_add(Duration::from_millis(1)) }
    }

    /// What a run had not heard of becomes news. A read for a run that left memory meanwhile says
    /// nothing about the one that came after it.
    pub(super) fn messages_read(&mut self, uid: Uid, read: u64, found: Result<Vec<MessageRow>>) {
        let run = self.memory.runs.get_mut(&uid).filter(|run| run.hearing.is(read));
        let Some(run) = run else { return };
        let rows = match found {
            Ok(rows) => rows,
            Err(error) => {
                self.tell("read messages", &uid, &error);
                return self.read_later_of(uid, self.messages_of(uid, read));
            }
        };
        let again = run.hearing.end();
        let mut seen_again = false;
        for row in rows {
            seen_again |= run.taken.contains(&row.id);
            if !matches!(row.body, StoredMessage::Timer { .. }) && !run.knows(&row.id) {
                run.news.extend(news_of(run.key, row));
            }
        }
        run.requests_may_follow(read);
        // A message that is taken already: the read was older than that, or somebody sent it once
        // more. In the second case it is still there when it is read again.
        run.read_again = seen_again;
        if !run.committing {
            run.taken.clear();
        }
        self.advance(uid);
        match again {
            true => self.has_messages(uid),
            false => self.read_again(uid),
        }
    }

    /// Reads the messages of a run once more, as soon as what it has taken is gone from the store.
    pub(super) fn read_again(&mut self, uid: Uid) {
        let Some(run) = self.memory.runs.get_mut(&uid).filter(|run| !run.committing) else {
            return;
        };
        if std::mem::take(&mut run.read_again) {
            self.has_messages(uid);
        }
    }

    /// Stored messages of an instance no longer come up where work is looked for.
    pub(super) fn park(&mut self, uid: Uid) {
        let step = Step { messages: vec![MessageWrite::Park(uid)], ..Step::default() };
        self.outbox.push(step, Vec::new());
    }

    /// Reads which of the instances that somebody waits for are closed, where others work on them.
    pub(super) fn look_for_ends(&mut self) {
        let elsewhere = self.waiters.keys().any(|uid| !self.owns(*uid));
        if elsewhere && self.memory.ends_heard.begin(&mut self.outbox.ticks).is_some() {
            self.read(self.ends());
        }
    }

    fn ends(&self) -> Read {
        let uids = self.waiters.keys().copied().filter(|uid| !self.owns(*uid));
        Read::Ends { uids: uids.collect() }
    }

    /// Those who wait for an instance that is closed get the outcome. One that is missing closed,
    /// and somebody deleted it before this node looked.
    pub(super) fn ends_read(&mut self, found: Result<(Vec<InstanceRow>, Vec<Uid>)>) {
        match found {
            Ok((rows, missing)) => {
                let again = self.memory.ends_heard.end();
                missing.into_iter().for_each(|uid| self.no_instance(uid));
                for row in rows {
                    if let Some(outcome) = Outcome::of(&row) {
                        self.finished(row.uid, &outcome);
                    }
                }
                if again {
                    self.look_for_ends();
                }
            }
            Err(_) => {
                self.read_later(self.ends());
            }
        }
    }

    /// A client's news for an instance: stored, if the instance is open. The shard may be this
    /// node's by the time that is durable, and nobody else would tell it: what others have
    /// committed is heard of, what this node has is not.
    pub(super) fn tell_owner(&mut self, key: RunKey, news: News) {
        debug_assert!(matches!(news.origin, Origin::Request));
        let mut effects = Vec::new();
        let open = InstanceWrite::Open { uid: key.uid, signals_below: None };
        let instance = self.needs_room(key.uid, &news).or(Some(open));
        let mut step = Step { instance, ..Step::default() };
        self.put_back(key, news, &mut step, &mut effects);
        effects.push(Effect::Wake(key.uid));
        self.outbox.push(step, effects);
    }

    /// A client's start: the row of the instance, and a message that has the owner begin it.
    pub(super) fn start_for_owner(
        &mut self,
        row: InstanceRow,
        replace_closed: bool,
        started: Effect,
    ) {
        let uid = row.uid;
        let start = start_message(uid);
        let step = Step {
            instance: Some(InstanceWrite::Insert { row: row.into(), replace_closed }),
            messages: vec![MessageWrite::Insert(start)],
            ..Step::default()
        };
        self.outbox.push(step, vec![started, Effect::Wake(uid)]);
    }
}

impl Hearing {
    /// The number of a read that is to begin; otherwise it follows the one that is under way.
    pub(super) fn begin(&mut self, numbers: &mut u64) -> Option<u64> {
        if self.reading.is_some() {
            self.again = true;
            return None;
        }
        *numbers += 1;
        self.reading = Some(*numbers);
        self.reading
    }

    /// The read is over. True when another one is to follow.
    pub(super) fn end(&mut self) -> bool {
        self.reading = None;
        std::mem::take(&mut self.again)
    }

    pub(super) fn is(&self, read: u64) -> bool {
        self.reading == Some(read)
    }

    pub(super) fn is_reading(&self) -> bool {
        self.reading.is_some()
    }
}

/// What was asked of an owner that is none any more: whoever asked hears of it.
fn fail_news(news: impl IntoIterator<Item = News>) {
    for reply in news.into_iter().filter_map(|news| news.reply) {
        reply.send(Err(Error::transient(Refusal::Fenced)));
    }
}
