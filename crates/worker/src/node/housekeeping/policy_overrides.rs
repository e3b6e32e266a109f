//! Policies that operators set for all calls of an activity.
//!
//! They are rows that everybody may write, and that every node which works reads: when it begins,
//! before it looks at anything that the process before left; when it has written one itself; and
//! when somebody else has committed, at most once a second. What was read decides from then on, in
//! the place of the calls' own policies (`policy.rs`). No task names such a policy. What is asked
//! of a node before it knows waits until it does (`request.rs`).
//!
//! | an open call                      | what follows from another policy for its activity       |
//! |-----------------------------------|---------------------------------------------------------|
//! | runs, or is paused                | the next decision is by it                              |
//! | waits for its first attempt       | the same                                                |
//! | waits after a failure             | it is decided about again, as if one had set the policy |
//! |                                   | for the call                                            |
//!
//! For the latter all calls of the activity that wait are looked at, a page at a time, and only as
//! fast as they are read. A call keeps by which revision its wait was decided, so it does not
//! matter how often it is looked at, nor who does: a node that takes a shard over looks at all of
//! them there. A row is written only where the wait has changed. What others may claim meanwhile is
//! claimed first, as when it has waited too long (`deadline.rs`).

use std::collections::BTreeMap;
use std::time::Duration;

use resurgam_core::{CallKey, Timestamp};
use resurgam_store::rows::PolicyOverride;
use resurgam_store::{RemoteActivity, Step};

use crate::error::Error;
use crate::node::Node;
use crate::node::coalesced_read::CoalescedRead;
use crate::node::follow_up::FollowUp;
use crate::node::input::Request;
use crate::node::powers::Role;
use crate::node::reply::Reply;
use crate::node::steps::effect::Effect;
use crate::node::store_request::StoreRequest;

/// How many calls are looked at in one page.
pub(crate) const PAGE: usize = 1_000;

/// The shortest time between two reads because of what others have committed.
const PAUSE: Duration = Duration::from_secs(1);

/// The same while what gates allow is shared out among nodes, and lapses when nobody renews it.
const SHORT_PAUSE: Duration = Duration::from_millis(100);

/// What a node knows about the policies that operators set.
#[derive(Debug, Default)]
pub(crate) struct OverrideState {
    hearing: CoalescedRead,
    /// When they were read last.
    read_at: Option<Timestamp>,
    /// This node has written some since.
    written: bool,
    /// When to read them next.
    next: Option<Timestamp>,
    /// This node got shards before it knew any.
    gained: bool,
    /// The activities whose calls are to be looked at, and behind which call that goes on.
    passes: BTreeMap<String, Option<CallKey>>,
    /// A page is being read.
    passing: bool,
}

impl OverrideState {
    /// When to read them next.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.next.filter(|_| !self.hearing.is_reading())
    }
}

impl Node {
    /// True when it is known what operators set. Otherwise that is read first, and whoever asked
    /// goes on when shards are gained once more.
    pub(crate) fn knows_overrides(&mut self) -> bool {
        let is_known = self.has_read_overrides();
        self.memory.overrides.gained |= !is_known;
        is_known
    }

    /// True when a call that is made now could be decided about by a policy that an operator has
    /// replaced.
    pub(crate) fn is_too_early(&mut self) -> bool {
        match self.role {
            Role::Asking => true,
            Role::Client => false,
            Role::Owner => !self.has_read_overrides(),
        }
    }

    /// True when it is known what operators set. Otherwise that is read, and requests wait for it.
    fn has_read_overrides(&mut self) -> bool {
        let OverrideState { read_at, hearing, written, .. } = &self.memory.overrides;
        let is_known = read_at.is_some() && !written;
        if !is_known && !hearing.is_reading() {
            self.look_at_overrides();
        }
        is_known
    }

    /// Reads what operators set.
    pub(crate) fn look_at_overrides(&mut self) {
        if self.is_owner() && self.memory.overrides.hearing.begin(&mut self.ticks).is_some() {
            self.memory.overrides.next = None;
            let counted_from = self.counted_from();
            self.asks_for_gates();
            let offered = self.registry.finds_activities();
            self.ask_store(StoreRequest::PolicyOverrides { counted_from, offered });
        }
    }

    /// What this node wrote is durable: requests that come from now on follow it.
    pub(crate) fn overrides_written(&mut self) {
        self.memory.overrides.written = self.is_owner();
        self.look_at_overrides();
    }

    /// Somebody else has committed something.
    pub(crate) fn hear_of_overrides(&mut self) {
        let now = self.now;
        let pause = if self.shares_gates_out() { SHORT_PAUSE } else { PAUSE };
        let soon = self.memory.overrides.read_at.map(|at| at.saturating_add(pause));
        match soon.filter(|at| *at > now) {
            Some(at) => self.memory.overrides.next = Some(at),
            None => self.look_at_overrides(),
        }
    }

    /// Reads what operators set when it is time, and the next page of calls that it is about.
    pub(crate) fn wake_overrides(&mut self) {
        let now = self.now;
        if self.memory.overrides.next().is_some_and(|at| at <= now) {
            self.look_at_overrides();
        }
        let state = &self.memory.overrides;
        if state.passing || self.stopping.is_some() || self.memory.calls.reading() >= PAGE {
            return;
        }
        let next = state.passes.iter().next().map(|(activity, after)| (activity.clone(), *after));
        if let Some((activity, after)) = next {
            self.memory.overrides.passing = true;
            self.ask_store(StoreRequest::WaitingCalls { activity, after });
        }
    }

    /// Activities of remote workers are known by what is stored of them, before one has spoken.
    pub(crate) fn offers_read(&mut self, offered: &[RemoteActivity]) {
        let learns = |row: &&RemoteActivity| {
            let RemoteActivity { name, offered_at, offer } = row;
            self.registry.learns(name, *offered_at, offer)
        };
        if offered.iter().filter(learns).count() > 0 {
            self.then(FollowUp::Request(Request::LookForWork));
        }
    }

    /// What operators set is known.
    pub(crate) fn overrides_read(&mut self, found: Vec<PolicyOverride>) {
        self.memory.overrides.read_at = Some(self.now);
        match (self.memory.overrides.hearing.end(), self.memory.overrides.written) {
            // It was read before that was durable.
            (true, true) => self.look_at_overrides(),
            (true, false) => self.hear_of_overrides(),
            (false, _) => self.memory.overrides.written = false,
        }
        let changed = self.policies.set_overrides(found);
        for call in self.memory.calls.of_activities(&changed) {
            let own = self.policies.known(&call.task().policy);
            if let Some(own) = own {
                let deciding = self.policies.deciding(own, call.task());
                call.follows(deciding);
            }
        }
        self.memory.overrides.passes.extend(changed.into_iter().map(|activity| (activity, None)));
        if std::mem::take(&mut self.memory.overrides.gained) {
            self.then(FollowUp::ShardsGained);
        }
        self.then(FollowUp::TakeDeferred);
    }

    /// Shards were gained: the calls there may have been decided by other policies.
    pub(crate) fn look_at_overridden(&mut self) {
        let activities = self.policies.overridden_activities();
        let passes: Vec<_> = activities.map(|activity| (activity.clone(), None)).collect();
        self.memory.overrides.passes.extend(passes);
    }

    /// Calls of an activity wait: those of which the wait was decided by another policy are decided
    /// about again.
    pub(crate) fn waiting_calls_read(
        &mut self,
        activity: String,
        after: Option<CallKey>,
        found: &[CallKey],
    ) {
        let state = &mut self.memory.overrides;
        state.passing = false;
        // Another change of the same activity begins at the front.
        if state.passes.get(&activity) == Some(&after) {
            match found.last().filter(|_| found.len() == PAGE) {
                Some(last) => state.passes.insert(activity, Some(*last)),
                None => state.passes.remove(&activity),
            };
        }
        for key in found {
            match self.memory.calls.has(*key) {
                true => self.task_waits(*key),
                false if self.owns(key.run.uid) => self.read_task(*key, None),
                false => {}
            }
        }
    }

    /// Stores what an operator sets for an activity, or removes.
    pub(crate) fn set_override(&mut self, row: PolicyOverride, reply: Reply<()>) {
        if self.stopping.is_some() {
            let error = Error::stopped(format!("set the policy of {}", row.activity));
            return self.answer(reply, Err(error));
        }
        let step = Step { policy_overrides: vec![row], ..Step::default() };
        self.outbox.push(step, vec![Effect::Reply(reply), Effect::LookAtOverrides]);
    }
}
