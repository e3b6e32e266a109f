//! Who works on the store: this node, or another one that it stands by for.
//!
//! | role    | what it does                                                                     |
//! |---------|----------------------------------------------------------------------------------|
//! | asking  | nothing yet: requests wait until it is known who works                           |
//! | client  | stores what is asked for as rows that wake the owner; stands by if it may work   |
//! | owner   | everything                                                                       |
//!
//! On SQLite a store has one owner: the right to work lasts as long as the process does, and a node
//! that stands by takes over at once. On PostgreSQL several nodes own shards at a time, and the
//! store renews their membership. A node that was overtaken can write nothing any more; it forgets
//! everything and asks again.
//!
//! Nobody tells anybody anything but through the store: each side looks when somebody else has
//! committed. Then the owner reads the messages that are due, and a client whether what it waits
//! for is closed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use resurgam_core::{Shard, Uid};
use resurgam_store::Result;
use resurgam_store::rows::DueMessage;

use crate::error::Error;
use crate::node::Node;
use crate::node::follow_up::FollowUp;
use crate::node::input::RoleAnswer;
use crate::node::memory::Memory;
use crate::node::output::Output;
use crate::node::powers::Role;
use crate::node::reply::Reply;
use crate::node::steps::pending::Pending;
use crate::node::steps::refusal::Refusal;
use crate::node::store_request::StoreRequest;

/// How often a node that stands by looks whether it may work.
const STAND_BY: Duration = Duration::from_millis(20);

/// How many due messages are read at once.
pub(crate) const DUE: usize = 10_000;

impl Node {
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
    pub(crate) fn ask_to_own(&mut self) {
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
    pub(crate) fn role_known(&mut self, answer: Result<RoleAnswer>) {
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
        for reply in self.deferred.take_settled() {
            self.answer(reply, Ok(()));
        }
        self.then(FollowUp::TakeDeferred);
    }

    /// Another role: what was in memory for the one before, and what is being read for it, is worth
    /// nothing any more. Answers with what was in memory.
    fn take_role(&mut self, role: Role) -> Memory {
        self.tenure += 1;
        let assignment = self.memory.shards.assignment();
        let memory = Memory::new(&self.options, &self.registry, assignment, self.now);
        let before = std::mem::replace(&mut self.memory, memory);
        self.role = role;
        // What others have closed meanwhile, nobody in this process has heard of.
        self.look_for_ends();
        before
    }

    /// The store does not say who works. Whoever waits for that hears of it; asking goes on.
    fn role_unknown(&mut self, error: &resurgam_store::Error) {
        for reply in self.deferred.take_settled() {
            self.answer(
                reply,
                Err(match error.is_transient() {
                    true => Error::transient(error),
                    false => Error::rejected(error),
                }),
            );
        }
    }

    /// Answers when it is known whether this node works.
    pub(crate) fn settle(&mut self, reply: Reply<()>) {
        match self.role {
            Role::Asking => self.deferred.add_settled(reply),
            _ => self.answer(reply, Ok(())),
        }
    }

    /// Another node works on the store by now: everything in memory is worth nothing.
    pub(crate) fn step_down(&mut self, fenced: Vec<Pending>) {
        let was_owner = self.is_owner();
        let ready = if was_owner { self.outbox.take_ready() } else { Vec::new() };
        let (taken, unwritten) = self.memory.runs.forget_away();
        let effects = fenced.into_iter().chain(ready).flat_map(Pending::into_effects);
        for effect in effects.chain(unwritten) {
            self.tell_fate(effect, Err(&Refusal::Fenced));
        }
        if !was_owner {
            return;
        }
        tracing::error!(node = %self.name, "another node works on the store; standing by");
        self.outbox.abandon();
        self.outbox.forget_policies();
        // Claims of the node that it was count as lost, like those of any other.
        self.name = self.random.name(self.now);
        let Memory { runs, follow_ups, .. } = self.take_role(Role::Asking);
        let requests = follow_ups.into_iter().filter_map(FollowUp::into_request);
        requests.for_each(|request| self.deferred.add(request));
        self.fail_news(runs.into_news().chain(taken));
        self.knows_owner = false;
        self.outputs.push(Output::StepDown);
    }

    /// Reads which instances have messages of others.
    pub(crate) fn look_for_messages(&mut self) {
        if self.memory.messages.begin(&mut self.ticks).is_some() {
            self.ask_store(self.due_messages());
        }
    }

    fn due_messages(&self) -> StoreRequest {
        StoreRequest::DueMessages { until: self.now.saturating_add(Duration::from_millis(1)) }
    }

    /// Instances that have messages are woken, or read them now.
    pub(crate) fn due_messages_read(&mut self, found: Result<Vec<DueMessage>>) {
        match found {
            Ok(found) => {
                let again = self.memory.messages.end();
                let (reports, others): (Vec<DueMessage>, _) =
                    found.into_iter().partition(|message| message.is_for_holder);
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
                self.ask_store_later(self.due_messages());
            }
        }
    }
}
