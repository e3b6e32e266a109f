//! Runs: those in memory, which take news turn by turn, and those that are read when something
//! happens to them.

pub(crate) mod acting;
pub(crate) mod acts;
pub(crate) mod away;
pub(crate) mod away_turn;
pub(crate) mod continuation;
pub(crate) mod draft;
pub(crate) mod hot_run;
pub(crate) mod instance_info;
pub(crate) mod load_run;
pub(crate) mod paused_run;
pub(crate) mod pending_messages;
pub(crate) mod record;
pub(crate) mod redrive;
pub(crate) mod reset;
pub(crate) mod resting;
pub(crate) mod run;
pub(crate) mod settling;
pub(crate) mod start;
pub(crate) mod unloaded;
pub(crate) mod unloaded_run;
pub(crate) mod unread_signals;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use resurgam_core::{CallKey, RunKey, Uid};
use resurgam_store::rows::TaskRow;

use crate::keyed::Keyed;
use crate::node::news::News;
use crate::node::steps::effect::Effect;
use acts::Acts;
use away::{Away, Then};
use hot_run::HotRun;
use paused_run::PausedRun;
use unloaded_run::{Tries, UnloadedRun};

/// The runs that a node knows something of.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// Those in memory.
    hot: Keyed<Uid, HotRun>,
    /// Those in memory, by the id of their instance.
    ids: BTreeMap<String, Uid>,
    /// Those that are not in memory and have news, or are being read.
    unloaded: BTreeMap<Uid, UnloadedRun>,
    /// Those that are blocked, or wait for a process that knows their workflow.
    blocked: BTreeMap<Uid, Tries>,
    /// Those that operators act on: they take no turn until that is durable.
    acted_on: BTreeMap<Uid, Acts>,
    /// Those that are known to be paused.
    paused: BTreeMap<Uid, PausedRun>,
    /// What those in memory go on with whose code is away.
    away: BTreeMap<Uid, Away>,
}

impl Runs {
    /// How many are in memory.
    pub(crate) fn len(&self) -> usize {
        self.hot.len()
    }

    /// True when the instance's run is in memory.
    pub(crate) fn has(&self, uid: Uid) -> bool {
        self.hot.contains(uid)
    }

    /// The instance in memory that has this id.
    pub(crate) fn of_id(&self, id: &str) -> Option<Uid> {
        self.ids.get(id).copied()
    }

    /// A run in memory, whichever of its instance it is.
    pub(crate) fn get(&self, uid: Uid) -> Option<&HotRun> {
        self.hot.get(uid)
    }

    /// A run in memory, if its instance is still on this one.
    pub(crate) fn current(&self, key: RunKey) -> Option<&HotRun> {
        self.get(key.uid).filter(|run| run.key == key)
    }

    fn current_mut(&mut self, key: RunKey) -> Option<&mut HotRun> {
        self.hot.get_mut(key.uid).filter(|run| run.key == key)
    }

    /// Keeps a run in memory.
    fn insert(&mut self, run: HotRun) {
        self.ids.insert(run.id.clone(), run.key.uid);
        self.hot.insert(run.key.uid, Box::new(run));
    }

    /// Takes a run out of memory.
    fn remove(&mut self, uid: Uid) -> Option<Box<HotRun>> {
        let run = self.hot.remove(uid)?;
        self.ids.remove(&run.id);
        Some(run)
    }

    /// Takes a run out of memory that is coming back in a moment.
    fn remove_for_now(&mut self, uid: Uid) -> Option<Box<HotRun>> {
        self.hot.remove(uid)
    }

    /// The id of a run is nobody's, until the run is kept in memory.
    fn forget_id(&mut self, run: &HotRun) {
        self.ids.remove(&run.id);
    }

    /// What none of them has taken, when the node forgets them all.
    pub(crate) fn into_news(self) -> impl Iterator<Item = News> {
        let held = self.unloaded.into_values().flat_map(|unloaded| unloaded.held);
        self.hot.into_values().flat_map(|run| run.into_news()).chain(held)
    }

    /// How many have news that waits until they are read, or until their messages are.
    pub(crate) fn waiting_for_reads(&self) -> usize {
        let held = self.unloaded.values().filter(|unloaded| !unloaded.held.is_empty());
        held.count() + self.hot.count(HotRun::has_requests)
    }

    /// How many take a turn elsewhere.
    pub(crate) fn away(&self) -> usize {
        self.away.len()
    }

    /// What those had taken that are away, and those who wait for an answer about it, when the node
    /// forgets them all.
    pub(crate) fn forget_away(&mut self) -> (Vec<News>, Vec<Effect>) {
        let (mut all_news, mut all_effects) = (Vec::new(), Vec::new());
        for away in std::mem::take(&mut self.away).into_values() {
            let (news, effects, start) = away.into_parts();
            all_news.extend(news);
            all_effects.extend(effects);
            if let Some(start) = start {
                all_effects.push(start.started);
                all_effects.extend(start.others);
            }
        }
        (all_news, all_effects)
    }

    /// Somebody starts an instance whose first turn is away: the answer comes behind that of the
    /// first. Without such an instance the answer is given back.
    pub(crate) fn answer_behind_start(&mut self, uid: Uid, answer: Effect) -> Option<Effect> {
        match self.away.get_mut(&uid).map(|away| &mut away.then) {
            Some(Then::Start(start)) => {
                start.others.push(answer);
                None
            }
            _ => Some(answer),
        }
    }

    /// True when something is known of any of these instances.
    pub(crate) fn has_any(&self, of: impl Fn(Uid) -> bool) -> bool {
        self.hot.any_key(&of) || self.unloaded.keys().any(|uid| of(*uid))
    }

    /// These instances, as far as something is known of them.
    pub(crate) fn of(&self, of: impl Fn(Uid) -> bool) -> BTreeSet<Uid> {
        let known = self.unloaded.keys().chain(self.blocked.keys());
        let known = known.chain(self.acted_on.keys()).chain(self.paused.keys());
        self.hot.keys().chain(known.copied()).filter(|uid| of(*uid)).collect()
    }

    /// The clock was set back by so much: blocked runs are tried again so much earlier.
    pub(crate) fn clock_was_set_back(&mut self, by: Duration) {
        let tries = self.blocked.values_mut();
        tries.for_each(|tries| tries.next = tries.next.saturating_sub(by));
    }

    /// True while an operator acts on the instance's run.
    pub(crate) fn is_acted_on(&self, uid: Uid) -> bool {
        self.acted_on.contains_key(&uid)
    }

    /// True while news of an instance that is not in memory is on its way to the store.
    pub(crate) fn is_storing(&self, uid: Uid) -> bool {
        self.unloaded.get(&uid).is_some_and(|unloaded| unloaded.storing > 0)
    }

    /// A call is to be looked at when the news of its instance is stored. False when none is on its
    /// way.
    pub(crate) fn look_when_stored(&mut self, call: CallKey) -> bool {
        let storing = |unloaded: &&mut UnloadedRun| unloaded.storing > 0;
        let unloaded = self.unloaded.get_mut(&call.run.uid).filter(storing);
        unloaded.map(|unloaded| unloaded.to_look_at.push(call)).is_some()
    }

    /// True when a call has ended, and its run has not taken that.
    pub(crate) fn has_end(&self, call: CallKey) -> bool {
        let is_its = |news: &News| news.ends(call);
        match (self.current(call.run), self.unloaded.get(&call.run.uid)) {
            (Some(run), _) => run.news.iter().any(is_its),
            (None, Some(unloaded)) => unloaded.held.iter().any(is_its),
            (None, None) => false,
        }
    }

    /// True when a call has ended, or was given up, and that may not be durable yet: what was read
    /// of its task is out of date.
    pub(crate) fn has_ended(&self, call: CallKey) -> bool {
        let is_open = |run: &HotRun| run.open_calls.contains(&call.seq);
        self.has_end(call) || !self.current(call.run).is_none_or(is_open)
    }

    /// A call is in memory now. An attempt of it is this node's business: a read of the run that
    /// began before may say otherwise.
    pub(crate) fn call_is_here(&mut self, call: CallKey, is_claimed: bool) {
        if let Some(unloaded) = self.unloaded.get_mut(&call.run.uid) {
            unloaded.outdated |= unloaded.loading && is_claimed;
        }
        if let Some(run) = self.current_mut(call.run) {
            run.elsewhere.remove(&call.seq);
        }
    }

    /// A call leaves memory: a read of the run that began before may say that an attempt of it
    /// runs.
    pub(crate) fn call_leaves(&mut self, call: CallKey) {
        if let Some(unloaded) = self.unloaded.get_mut(&call.run.uid) {
            unloaded.outdated |= unloaded.loading;
        }
    }

    /// The attempt of a call goes on at another node.
    pub(crate) fn call_is_elsewhere(&mut self, task: TaskRow) {
        if let Some(run) = self.current_mut(task.call.run) {
            run.elsewhere.insert(task.call.seq, task);
        }
    }

    /// A call is left to others: another node may run it.
    pub(crate) fn call_is_shared(&mut self, call: CallKey) {
        if let Some(run) = self.current_mut(call.run) {
            run.left_to_others.insert(call.seq);
        }
    }
}
