//! Which policy holds for a call, and its interned form.
//!
//! Call before activity before app: a policy replaces whole, each timeout by itself. Most calls
//! name nothing, so what holds for an activity is worked out once.
//!
//! That is a call's own policy, which its task names. What operators set for all calls of an
//! activity decides in its place for as long as it is set, and no task names it: setting and
//! removing it changes no row. Only a policy that an operator sets for the one call comes before
//! that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use resurgam_core::command::{ActivityCall, CallOptions};
use resurgam_core::retry::{CheckedPolicy, Idempotency, RetryPolicy, Timeouts};
use resurgam_sdk::{ActivityDefinition, ActivityOptions, Registry};
use resurgam_store::rows::{PolicyOverride, PolicyRow, TaskRow};

/// A policy ready to decide, with the row that tasks name.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) checked: CheckedPolicy,
    pub(crate) row: PolicyRow,
}

/// What a policy is set in place of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replaced<'a> {
    pub(crate) policy: &'a CheckedPolicy,
    /// The call undoes another one.
    pub(crate) undoes: bool,
    /// The activity whose place the call's has taken.
    pub(crate) fallback_of: Option<&'a str>,
}

const UNDOES: &str = "on_exhausted: \"compensate\" is not for a call that undoes another";

/// The policies in use.
#[derive(Debug)]
pub(crate) struct Policies {
    default: RetryPolicy,
    /// Of calls without options, by activity, with the options that the activity had then: those
    /// of a remote worker come, go and change.
    by_activity: BTreeMap<String, (ActivityOptions, Arc<Resolved>)>,
    by_hash: BTreeMap<String, Arc<Resolved>>,
    /// What operators set for activities.
    overrides: BTreeMap<String, Override>,
    /// What comes of that for calls whose own policy has this hash, by activity.
    overridden: BTreeMap<(String, String), Arc<Resolved>>,
}

/// What an operator set for an activity.
#[derive(Debug, PartialEq)]
struct Override {
    revision: u64,
    /// `None` when it was removed, or cannot be read.
    policy: Option<RetryPolicy>,
}

/// The policy that decides about a call.
#[derive(Clone, Debug)]
pub(crate) struct Deciding {
    pub(crate) policy: Arc<Resolved>,
    /// The revision of what was set for its activity; 0 when nothing ever was, or when that does
    /// not concern the call.
    pub(crate) revision: u64,
}

impl Policies {
    pub(crate) fn new(default: RetryPolicy) -> Self {
        Policies {
            default,
            by_activity: BTreeMap::new(),
            by_hash: BTreeMap::new(),
            overrides: BTreeMap::new(),
            overridden: BTreeMap::new(),
        }
    }

    /// Takes notice of what operators set for activities. Answers with those for which that is new.
    pub(crate) fn set_overrides(&mut self, rows: Vec<PolicyOverride>) -> BTreeSet<String> {
        let found: BTreeSet<&str> = rows.iter().map(|row| row.activity.as_str()).collect();
        // A row is gone only where a database has gone back in time.
        let gone = |activity: &String| !found.contains(activity.as_str());
        let mut changed: BTreeSet<String> =
            self.overrides.keys().filter(|activity| gone(activity)).cloned().collect();
        self.overrides.retain(|activity, _| !changed.contains(activity));
        for row in rows {
            let is_known = |known: &Override| known.revision == row.revision;
            if self.overrides.get(&row.activity).is_some_and(is_known) {
                continue;
            }
            let policy = row.retry_policy();
            if row.policy.is_some() && policy.is_none() {
                tracing::error!(activity = %row.activity, "the policy that was set cannot be read");
            }
            changed.insert(row.activity.clone());
            self.overrides.insert(row.activity, Override { revision: row.revision, policy });
        }
        self.overridden.retain(|(activity, _), _| !changed.contains(activity));
        changed
    }

    /// The activities for which operators ever set a policy.
    pub(crate) fn overridden_activities(&self) -> impl Iterator<Item = &String> {
        self.overrides.keys()
    }

    /// The policy that decides about a call whose own is this one: what an operator set for its
    /// activity, unless one was set for the call itself, or the call undoes another one.
    pub(crate) fn deciding(&mut self, own: Arc<Resolved>, task: &TaskRow) -> Deciding {
        let is_its_own = task.progress.undoes || task.progress.policy_set;
        let set = self.overrides.get(&task.name).filter(|_| !is_its_own);
        let Some(Override { revision, policy }) = set else {
            return Deciding { policy: own, revision: 0 };
        };
        let (revision, Some(policy)) = (*revision, policy) else {
            return Deciding { policy: own, revision: *revision };
        };
        let key = (task.name.clone(), own.row.hash.clone());
        if let Some(known) = self.overridden.get(&key) {
            return Deciding { policy: known.clone(), revision };
        }
        let policy = policy.in_place_of(&own.checked);
        let policy = self.intern(&policy).unwrap_or_else(|error| {
            // It was checked where it was set, and may not go together with the call's timeouts.
            tracing::error!(activity = %task.name, "the policy that was set: {error}");
            own
        });
        self.overridden.insert(key, policy.clone());
        Deciding { policy, revision }
    }

    /// The policy of a call. The error says why the call's own policy makes no sense.
    pub(crate) fn resolve(
        &mut self,
        registry: &Registry,
        call: &ActivityCall,
    ) -> Result<Arc<Resolved>, String> {
        let ActivityCall { name, options: call, compensates, .. } = call;
        // Where a call runs, and behind which gate, says nothing about its policy.
        let (queue, gate) = (call.queue.clone(), call.gate.clone());
        let plain = *call == CallOptions { queue, gate, ..CallOptions::default() };
        let plain = plain && compensates.is_none();
        let none = ActivityOptions::default();
        let activity = registry.activity(name);
        let activity = activity.as_ref().map_or(&none, |activity| &activity.options);
        if plain
            && let Some((of, known)) = self.by_activity.get(name)
            && of == activity
        {
            return Ok(known.clone());
        }
        let own = call.retry.as_deref().or(activity.retry.as_ref());
        let default = match compensates {
            Some(_) => until_it_succeeds(&self.default),
            None => self.default.clone(),
        };
        let mut policy = own.unwrap_or(&default).clone();
        policy.timeouts = timeouts(call, activity, default.timeouts);
        let resolved = self.intern(&policy)?;
        if compensates.is_some() && resolved.checked.compensates() {
            return Err(UNDOES.to_string());
        }
        registry.check_fallbacks(&resolved.checked, &self.default)?;
        if plain {
            let known = (activity.clone(), resolved.clone());
            self.by_activity.insert(name.to_string(), known);
        }
        Ok(resolved)
    }

    /// The policy of an activity that takes the place of a called one: its own, with the total
    /// timeout of the call.
    pub(crate) fn of_fallback(
        &mut self,
        activity: Option<&ActivityDefinition>,
        total: Option<Duration>,
        undoes: bool,
    ) -> Result<Arc<Resolved>, String> {
        let none = ActivityOptions::default();
        let activity = activity.map_or(&none, |activity| &activity.options);
        let default = match undoes {
            true => until_it_succeeds(&self.default),
            false => self.default.clone(),
        };
        let mut policy = activity.retry.as_ref().unwrap_or(&default).clone();
        let timeouts = timeouts(&CallOptions::default(), activity, default.timeouts);
        policy.timeouts = Timeouts { total, ..timeouts };
        self.intern(&policy)
    }

    /// The policy of a stored row.
    pub(crate) fn read(&mut self, row: &PolicyRow) -> Result<Arc<Resolved>, String> {
        if let Some(known) = self.known(&row.hash) {
            return Ok(known);
        }
        let policy = RetryPolicy::from_stored(&row.text).map_err(|error| error.to_string())?;
        let checked = policy.check().map_err(|error| error.to_string())?;
        let resolved = Arc::new(Resolved { checked, row: row.clone() });
        self.by_hash.insert(row.hash.clone(), resolved.clone());
        Ok(resolved)
    }

    /// The policy of a stored text.
    pub(crate) fn parse(&mut self, text: &str) -> Result<Arc<Resolved>, String> {
        self.read(&PolicyRow { hash: hash(text), text: text.to_string() })
    }

    /// The policy of a text that somebody sets in place of this one. Timeouts that it does not name
    /// stay, and what must not run twice still must not.
    pub(crate) fn in_place_of(
        &mut self,
        registry: &Registry,
        of: Replaced<'_>,
        text: &str,
    ) -> Result<Arc<Resolved>, String> {
        let mut policy = RetryPolicy::from_stored(text).map_err(|error| error.to_string())?;
        let before = of.policy;
        if before.idempotency == Idempotency::AtMostOnce {
            policy.idempotency = Idempotency::AtMostOnce;
        }
        let (named, others) = (policy.timeouts, before.timeouts);
        policy.timeouts = Timeouts {
            attempt: named.attempt.or(others.attempt),
            heartbeat: named.heartbeat.or(others.heartbeat),
            queue: named.queue.or(others.queue),
            total: named.total.or(others.total),
        };
        let resolved = self.intern(&policy)?;
        if of.undoes && resolved.checked.compensates() {
            return Err(UNDOES.to_string());
        }
        if let Some(called) = of.fallback_of
            && !resolved.checked.only_fails()
        {
            return Err(format!(
                "it has taken the place of {called}, so its on_exhausted can only be \"fail\""
            ));
        }
        registry.check_fallbacks(&resolved.checked, &self.default)?;
        Ok(resolved)
    }

    /// A policy that was used before.
    pub(crate) fn known(&self, hash: &str) -> Option<Arc<Resolved>> {
        self.by_hash.get(hash).cloned()
    }

    fn intern(&mut self, policy: &RetryPolicy) -> Result<Arc<Resolved>, String> {
        let text = policy.to_stored();
        let hash = hash(&text);
        if let Some(known) = self.known(&hash) {
            return Ok(known);
        }
        let checked = policy.check().map_err(|error| error.to_string())?;
        let row = PolicyRow { hash: hash.clone(), text };
        let resolved = Arc::new(Resolved { checked, row });
        self.by_hash.insert(hash, resolved.clone());
        Ok(resolved)
    }
}

/// What undoes something is tried until it succeeds, unless its call or its activity says
/// otherwise: the app's policy says how, but no number and no time of it ends that.
fn until_it_succeeds(app: &RetryPolicy) -> RetryPolicy {
    let timeouts = Timeouts { queue: None, total: None, ..app.timeouts };
    RetryPolicy { max_elapsed: None, timeouts, ..app.clone().unlimited() }
}

/// Each timeout by itself, from the first that says anything about it: the call, its policy, the
/// activity, its policy, the app.
fn timeouts(call: &CallOptions, activity: &ActivityOptions, app: Timeouts) -> Timeouts {
    let within =
        |policy: Option<&RetryPolicy>| policy.map_or(Timeouts::default(), |it| it.timeouts);
    let of_call = within(call.retry.as_deref());
    let of_activity = within(activity.retry.as_ref());
    let first = |one: Option<Duration>, of: fn(&Timeouts) -> Option<Duration>, two| {
        one.or(of(&of_call)).or(two).or(of(&of_activity)).or(of(&app))
    };
    Timeouts {
        attempt: first(call.timeout, |it| it.attempt, activity.timeout),
        heartbeat: first(call.heartbeat_timeout, |it| it.heartbeat, activity.heartbeat_timeout),
        queue: first(call.queue_timeout, |it| it.queue, activity.queue_timeout),
        total: first(call.total_timeout, |it| it.total, activity.total_timeout),
    }
}

/// FNV-1a over 128 bits: policies are few and written by the program's own author.
fn hash(text: &str) -> String {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for byte in text.bytes() {
        hash = (hash ^ u128::from(byte)).wrapping_mul(PRIME);
    }
    format!("{hash:032x}")
}
