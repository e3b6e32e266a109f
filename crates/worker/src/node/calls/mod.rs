//! Activity calls: when they are due, who gets a slot, claims, deadlines, what follows when an
//! attempt ends, and what a process that died left behind.

pub(crate) mod abandoned_claims;
pub(crate) mod action;
pub(crate) mod attempt_result;
pub(crate) mod call;
pub(crate) mod claim;
pub(crate) mod dead_letter;
pub(crate) mod deadline;
pub(crate) mod due;
pub(crate) mod failure_log;
pub(crate) mod hot_call;
pub(crate) mod lingering;
pub(crate) mod load_tasks;
pub(crate) mod outages;
pub(crate) mod pressure;
pub(crate) mod resuming;
pub(crate) mod slots;
pub(crate) mod task_read;
pub(crate) mod timeouts;
pub(crate) mod transactions;
pub(crate) mod waiting;

use std::collections::{BTreeMap, BTreeSet};

use resurgam_core::{CallKey, Uid};

use crate::keyed::Keyed;
use hot_call::HotCall;
use task_read::TaskRead;

/// The unfinished calls that a node works on.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// Those in memory.
    hot: Keyed<CallKey, HotCall>,
    /// Those that are being read.
    loading: BTreeMap<CallKey, TaskRead>,
}

impl Calls {
    /// How many are in memory.
    pub(crate) fn len(&self) -> usize {
        self.hot.len()
    }

    /// True when a call is in memory.
    pub(crate) fn has(&self, key: CallKey) -> bool {
        self.hot.contains(key)
    }

    /// A call in memory.
    pub(crate) fn get(&self, key: CallKey) -> Option<&HotCall> {
        self.hot.get(key)
    }

    /// Those in memory of these activities, to change what is known of them.
    pub(crate) fn of_activities(
        &mut self,
        names: &BTreeSet<String>,
    ) -> impl Iterator<Item = &mut HotCall> {
        self.hot.values_mut().filter(|call| names.contains(&call.task.name))
    }

    /// How many are being read.
    pub(crate) fn reading(&self) -> usize {
        self.loading.len()
    }

    /// A call in memory, to change what is known of it.
    pub(crate) fn get_mut(&mut self, key: CallKey) -> Option<&mut HotCall> {
        self.hot.get_mut(key)
    }

    /// The call whose attempt has this token.
    pub(crate) fn attempt(&self, key: CallKey, token: u64) -> Option<&HotCall> {
        self.get(key).filter(|call| call.has_token(token))
    }

    /// The call whose attempt has this token, to change what is known of it.
    pub(crate) fn attempt_mut(&mut self, key: CallKey, token: u64) -> Option<&mut HotCall> {
        self.get_mut(key).filter(|call| call.has_token(token))
    }

    /// Takes a call out of memory.
    pub(crate) fn remove(&mut self, key: CallKey) -> Option<Box<HotCall>> {
        self.hot.remove(key)
    }

    /// Those in memory.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &HotCall> {
        self.hot.values()
    }

    /// True when any of these instances has a call in memory.
    pub(crate) fn has_any(&self, of: impl Fn(Uid) -> bool) -> bool {
        self.hot.any_key(|key| of(key.run.uid))
    }

    /// The calls in memory of these instances.
    pub(crate) fn of(&self, of: impl Fn(Uid) -> bool) -> Vec<CallKey> {
        self.hot.keys().filter(|key| of(key.run.uid)).collect()
    }
}
