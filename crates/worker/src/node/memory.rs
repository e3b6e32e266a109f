//! What a node knows of the work for as long as it has its role.
//!
//! Whoever takes another role, or the same one anew, begins with nothing: all that was in memory
//! was worth something only while nobody else could change it. So everything of that kind is in one
//! place and is replaced as a whole. What is not here outlasts a role: who waits for what, what is
//! with the store, what people were told.

use std::collections::BTreeMap;

use resurgam_core::{CallKey, Timestamp, Uid};
use resurgam_sdk::Registry;
use resurgam_store::Standing;

use super::call::HotCall;
use super::deadline::Outages;
use super::due::Due;
use super::inbox::Routing;
use super::lingering::Lingering;
use super::load::{Claims, TaskRead};
use super::own::Hearing;
use super::report::Reports;
use super::retention::Keeper;
use super::revive::Tries;
use super::run::{Asleep, HotRun};
use super::schedule::Calendar;
use super::shards::Shards;
use super::shared::Leftovers;
use super::slots::{Slot, Slots};
use super::transact::Transactions;
use crate::options::Options;

/// What a node knows of the work for as long as it has its role.
pub(super) struct Memory {
    pub(super) runs: BTreeMap<Uid, HotRun>,
    /// The runs by the id of their instance.
    pub(super) ids: BTreeMap<String, Uid>,
    /// Runs that are not in memory and have news, or are being read.
    pub(super) asleep: BTreeMap<Uid, Asleep>,
    /// Runs that are blocked, or wait for a process that knows their workflow.
    pub(super) blocked: BTreeMap<Uid, Tries>,
    pub(super) calls: BTreeMap<CallKey, HotCall>,
    /// The tasks that are being read.
    pub(super) loading: BTreeMap<CallKey, TaskRead>,
    pub(super) transactions: Transactions,
    pub(super) due: Due,
    pub(super) slots: Slots,
    /// The slots of plain functions that have not returned, by the token of their attempt.
    pub(super) threads: BTreeMap<u64, Slot>,
    pub(super) lingering: Lingering,
    pub(super) outages: Outages,
    pub(super) shards: Shards,
    pub(super) reports: Reports,
    pub(super) leftovers: Leftovers,
    /// Claims of nodes that are gone are being read.
    pub(super) claims: Claims,
    /// Messages of others are being read.
    pub(super) messages_heard: Hearing,
    /// It is being read which instances are closed.
    pub(super) ends_heard: Hearing,
    pub(super) calendar: Calendar,
    pub(super) routing: Routing,
    pub(super) keeper: Keeper,
}

impl Memory {
    /// Nothing is known but what the store wants of the node.
    pub(super) fn new(
        options: &Options,
        registry: &Registry,
        standing: Standing,
        now: Timestamp,
    ) -> Self {
        Memory {
            runs: BTreeMap::new(),
            ids: BTreeMap::new(),
            asleep: BTreeMap::new(),
            blocked: BTreeMap::new(),
            calls: BTreeMap::new(),
            loading: BTreeMap::new(),
            transactions: Transactions::default(),
            due: Due::new(options.horizon, now),
            slots: Slots::new(options.slots, registry.limits(), options.queue_slots.clone()),
            threads: BTreeMap::new(),
            lingering: Lingering::default(),
            outages: Outages::default(),
            shards: Shards::new(standing),
            reports: Reports::default(),
            leftovers: Leftovers::default(),
            claims: Claims::default(),
            messages_heard: Hearing::default(),
            ends_heard: Hearing::default(),
            calendar: Calendar::default(),
            routing: Routing::default(),
            keeper: Keeper::default(),
        }
    }
}
