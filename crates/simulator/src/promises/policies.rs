//! What is promised about policies that operators set for all calls of an activity: calls are
//! decided about by what is set then, and by their own policies when that is removed. Every node
//! hears of a change some time after it is stored.

use std::time::Duration;

use resurgam_core::Timestamp;
use resurgam_core::retry::RetryPolicy;
use resurgam_store::Step;
use resurgam_store::model::Model;
use resurgam_store::rows::PolicyOverride;

use super::{CallSeen, Promises};

/// By then every node has heard of a change, or is dead.
const HEARD_BY_ALL: Duration = Duration::from_secs(60);

/// What operators set for all calls of the activity.
#[derive(Clone, Debug, Default)]
pub(super) struct PoliciesSeen {
    /// What was set, the last last.
    set: Vec<PolicySeen>,
    /// When another policy began to hold, by the clock of the database.
    changed_at: Option<Timestamp>,
}

#[derive(Clone, Debug)]
struct PolicySeen {
    row: PolicyOverride,
    /// `None` where it was removed.
    policy: Option<RetryPolicy>,
    /// When it was stored, and when something else was, by the clock of the database.
    from: Timestamp,
    until: Option<Timestamp>,
    /// The clock was set since, so that these say nothing.
    is_of_other_clock: bool,
}

impl PolicySeen {
    /// Some node may go by it at this time or later.
    fn may_decide(&self, since: Timestamp) -> bool {
        self.is_of_other_clock
            || self.until.is_none_or(|until| until.saturating_add(HEARD_BY_ALL) >= since)
    }
}

impl Promises {
    /// A step sets policies for all calls of an activity, or removes them.
    pub(super) fn policies_written(&mut self, step: &Step) {
        let now = self.now();
        for row in &step.policy_overrides {
            let last = self.policies.set.last_mut();
            last.into_iter().for_each(|last| last.until = Some(now));
            let (row, policy) = (row.clone(), row.retry_policy());
            let seen = PolicySeen { row, policy, from: now, until: None, is_of_other_clock: false };
            self.policies.set.push(seen);
            self.policies.changed_at = Some(now);
            // What waits is decided about again.
            self.calls.values_mut().for_each(|call| call.due = None);
        }
    }

    /// Calls that wait may be decided about again, because another policy holds.
    pub(super) fn policies_change(&self) -> bool {
        let lately = |at: Timestamp| at.saturating_add(HEARD_BY_ALL) >= self.now();
        self.policies.changed_at.is_some_and(lately)
    }

    /// Whether calls may be decided about by something else than their own policies.
    pub(super) fn are_policies_set(&self) -> bool {
        let may_decide = |seen: &PolicySeen| seen.policy.is_some() && seen.may_decide(self.now());
        self.policies.set.iter().any(may_decide)
    }

    /// By which policies it may have been decided that an attempt follows which has just failed.
    pub(super) fn policies_of<'a>(&'a self, call: &'a CallSeen) -> Vec<&'a RetryPolicy> {
        let since = call.recorded_at.unwrap_or(Timestamp::EPOCH);
        let set: Vec<&PolicySeen> = match call.compensates {
            true => Vec::new(),
            false => self.policies.set.iter().filter(|seen| seen.may_decide(since)).collect(),
        };
        let first = set.first().filter(|first| {
            let heard = first.from.saturating_add(HEARD_BY_ALL);
            !first.is_of_other_clock && call.recorded_at.is_some() && heard < since
        });
        let only_set = first.is_some() && set.iter().all(|seen| seen.policy.is_some());
        let own = call.script.as_ref().map(|script| &script.policy).filter(|_| !only_set);
        let set = set.into_iter().filter_map(|seen| seen.policy.as_ref());
        own.into_iter().chain(&call.policies).chain(set).collect()
    }

    /// The clock was set: when something was set by it says nothing.
    pub(super) fn clock_of_policies_was_set(&mut self) {
        self.policies.set.iter_mut().for_each(|seen| seen.is_of_other_clock = true);
        self.calls.values_mut().for_each(|call| call.recorded_at = None);
    }

    /// The database is what it was a while ago. Whoever has read what was set since goes by that
    /// until it reads again.
    pub(crate) fn policies_were_set_back(&mut self, before: &Promises) {
        let is_lost = |seen: &&PolicySeen| !self.policies.set.iter().any(|it| it.row == seen.row);
        let lost: Vec<PolicySeen> = before.policies.set.iter().filter(is_lost).cloned().collect();
        let lost = lost.into_iter().map(|seen| PolicySeen { is_of_other_clock: true, ..seen });
        self.policies.changed_at = self.policies.changed_at.max(before.policies.changed_at);
        self.policies.set.splice(0..0, lost);
    }

    /// An operator is told that what they set for an activity is stored: it is.
    pub(crate) fn policy_acknowledged(&mut self, model: &Model, row: &PolicyOverride) {
        let is_stored = self.policies.set.iter().any(|seen| seen.row == *row);
        let mut stored = model.policy_overrides().into_iter();
        if !is_stored || !stored.any(|found| found.activity == row.activity) {
            let activity = &row.activity;
            let what = format!("a policy of {activity} was acknowledged, and it is not there");
            self.breaks(None, what);
        }
    }
}
