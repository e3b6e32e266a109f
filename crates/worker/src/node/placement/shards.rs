//! The shards that this node works on: getting them, and handing them over.
//!
//! | a shard is | what this node does with its instances                                        |
//! |------------|-------------------------------------------------------------------------------|
//! | held       | everything                                                                    |
//! | leaving    | brings them to rest: nothing begins, what is on its way still gets to the disk |
//! | elsewhere  | asks, as a client does                                                        |
//!
//! The store says what should move. Taking is at once, and then everything of the shard is read as
//! after a restart. What is given up leaves memory first; only when nothing of it is on its way any
//! more is it released, so the next holder finds everything. Attempts go on: their claim is this
//! node's, whoever holds the shard. They report by message (`remote_attempts.rs`).
//!
//! A store with one owner gives all shards at once and never asks for any.

use std::sync::Arc;

use resurgam_core::{Shard, Uid};
use resurgam_store::{Aside, Assignment};

use crate::node::Node;
use crate::node::follow_up::FollowUp;
use crate::node::steps::effect::Effect;
use crate::node::store_request::StoreRequest;

impl Node {
    /// Does what the store wants of this node.
    pub(crate) fn follow_assignment(&mut self) {
        if !self.is_owner() || !std::mem::take(&mut self.memory.shards.changed) {
            return;
        }
        let Assignment { take, give, departed, aside, .. } = self.memory.shards.assignment.clone();
        self.tell_aside(aside);
        if std::mem::replace(&mut self.memory.shards.departed, departed) != departed {
            self.read_abandoned();
        }
        if self.stopping.is_none() {
            self.take_shards(take);
            self.leave(give);
        }
        self.fill_slots();
        self.look_for_shared();
    }

    /// Says, once, why this node has no part in the work.
    fn tell_aside(&mut self, aside: Option<Aside>) {
        if self.memory.shards.aside == aside {
            return;
        }
        match &aside {
            None => tracing::info!(node = %self.name, "shares the shards again"),
            Some(Aside::KnowsLess { than }) => tracing::info!(
                node = %self.name,
                "leaves its shards to node {than}, which knows all of its workflows and more"
            ),
            Some(Aside::KnowsOthers { than, program, only_there, only_here }) => tracing::warn!(
                node = %self.name,
                "takes no shards: node {than} ({program}) works here and knows other workflows \
                 ({}), so instances of {} wait; programs with different workflows need a schema \
                 each (postgres://HOST/DATABASE?schema=NAME)",
                listed(only_there),
                listed(only_here),
            ),
        }
        self.memory.shards.aside = aside;
    }

    fn take_shards(&mut self, shards: Vec<Shard>) {
        let is_new = |shard: &Shard| !self.memory.shards.held.contains(shard);
        let shards: Arc<[Shard]> = shards.into_iter().filter(is_new).collect();
        if shards.is_empty() || std::mem::replace(&mut self.memory.shards.taking, true) {
            return;
        }
        self.ask_store(StoreRequest::Take { node: self.name.clone(), shards });
    }

    /// Shards are this node's.
    pub(crate) fn shards_taken(&mut self, shards: &[Shard]) {
        self.memory.shards.taking = false;
        if self.stopping.is_some() {
            // They came too late, and go at once.
            self.memory.shards.held.extend(shards);
            return self.leave(shards.to_vec());
        }
        self.gain(shards);
        self.memory.shards.changed = true;
    }

    /// This node works on these shards from now on.
    pub(crate) fn gain(&mut self, shards: &[Shard]) {
        if shards.is_empty() {
            return;
        }
        match self.is_shared {
            true => tracing::info!(node = %self.name, "works on {} more shards", shards.len()),
            // One owner has them all.
            false => tracing::debug!(node = %self.name, "works on all shards"),
        }
        for shard in shards {
            self.memory.shards.tenures[usize::from(shard.0)] += 1;
            self.memory.shards.held.insert(*shard);
            self.memory.shards.leaving.remove(shard);
        }
        self.memory.due.rescan(self.now);
        self.memory.slots.gates_mut().reads_anew();
        self.ends_were_missed(shards);
        self.then(FollowUp::ShardsGained);
    }

    /// Brings shards to rest, to give them up.
    pub(crate) fn leave(&mut self, shards: Vec<Shard>) {
        let shards: Vec<Shard> =
            shards.into_iter().filter(|shard| self.memory.shards.owns(*shard)).collect();
        if shards.is_empty() {
            return;
        }
        tracing::info!(node = %self.name, "gives up {} shards", shards.len());
        self.memory.shards.leaving.extend(shards);
        let goes = |uid: Uid| self.memory.shards.leaving.contains(&uid.shard());
        let calls = self.memory.calls.of(goes);
        let runs = self.memory.runs.of(goes);
        self.memory.reports.forget(goes);
        let claimed = self.memory.reports.take_claimed(goes);
        self.memory.claims.forget(goes);
        self.memory.due.drop_of(&self.memory.shards.leaving);
        self.memory.slots.drop_of(&self.memory.shards.leaving);
        claimed.into_iter().for_each(|task| self.return_claim(task));
        calls.into_iter().for_each(|key| self.send_away(key));
        runs.into_iter().for_each(|uid| self.forget_run(uid));
        self.forget_reads();
        self.settle_shards();
    }

    /// When nothing of what leaves is in memory, what is on its way is waited for.
    pub(crate) fn settle_shards(&mut self) {
        if self.memory.shards.leaving.is_empty()
            || self.memory.shards.settling
            || !self.has_let_go()
        {
            return;
        }
        self.memory.shards.settling = true;
        self.outbox.after_all(Effect::AtRest);
    }

    fn has_let_go(&self) -> bool {
        let goes = |uid: Uid| self.memory.shards.leaving.contains(&uid.shard());
        !self.memory.runs.has_any(goes)
            && !self.memory.calls.has_any(goes)
            && !self.memory.lingering.has(goes, self.elapsed)
    }

    /// Everything that was on its way is durable: the shards that leave are released.
    pub(crate) fn at_rest(&mut self) {
        self.memory.shards.settling = false;
        if self.memory.shards.leaving.is_empty() || !self.has_let_go() {
            return self.settle_shards();
        }
        self.memory.shards.settling = true;
        let shards: Arc<[Shard]> = self.memory.shards.leaving.iter().copied().collect();
        self.ask_store(StoreRequest::Release { node: self.name.clone(), shards });
    }

    /// Shards are no longer this node's.
    pub(crate) fn shards_released(&mut self, shards: &[Shard]) {
        self.memory.shards.settling = false;
        for shard in shards {
            self.memory.shards.held.remove(shard);
            self.memory.shards.leaving.remove(shard);
        }
        self.memory.lingering.forget(|uid| shards.contains(&uid.shard()));
        self.look_for_ends();
        // More may have to go by now.
        self.settle_shards();
        self.memory.shards.changed = true;
    }
}

/// Workflows for people: without versions, and not all of a hundred.
fn listed(workflows: &[String]) -> String {
    const MOST: usize = 5;
    let name = |known: &String| match known.split_once(' ') {
        Some(("*", _)) => "programs and graphs".to_string(),
        Some(("@", name)) => format!("activity {name}"),
        Some((name, "1")) => name.to_string(),
        Some((name, version)) => format!("{name} version {version}"),
        None => known.clone(),
    };
    let mut names: Vec<String> = workflows.iter().take(MOST).map(name).collect();
    if let Some(more) = workflows.len().checked_sub(MOST).filter(|more| *more > 0) {
        names.push(format!("{more} more"));
    }
    if names.is_empty() { "none".to_string() } else { names.join(", ") }
}
