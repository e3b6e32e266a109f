//! What a node knows of the work for as long as it has its role.
//!
//! Whoever takes another role, or the same one anew, begins with nothing: all that was in memory
//! was worth something only while nobody else could change it. So everything of that kind is in one
//! place and is replaced as a whole. What is not here outlasts a role: who waits for what, what is
//! with the store, what people were told.

use std::collections::{BTreeMap, VecDeque};

use resurgam_core::Timestamp;
use resurgam_sdk::Registry;
use resurgam_store::Assignment;

use super::calls::Calls;
use super::calls::abandoned_claims::Claims;
use super::calls::due::Due;
use super::calls::lingering::Lingering;
use super::calls::outages::Outages;
use super::calls::slots::{Slot, Slots};
use super::calls::transactions::Transactions;
use super::coalesced_read::CoalescedRead;
use super::follow_up::FollowUp;
use super::gates::Gates;
use super::gates::crowded::Prefixes;
use super::housekeeping::bulk::BulkState;
use super::housekeeping::inbox::InboxRouter;
use super::housekeeping::policy_overrides::OverrideState;
use super::housekeeping::schedule::ScheduleState;
use super::housekeeping::sweeper::Sweeper;
use super::placement::held_shards::Shards;
use super::remote::reports::Reports;
use super::remote::unserved_queues::UnservedQueues;
use super::runs::Runs;
use super::waiters::Ends;
use crate::options::Options;

/// What a node knows of the work for as long as it has its role.
pub(crate) struct Memory {
    /// What is still to be done about what was handled; empty when that is done.
    pub(crate) follow_ups: VecDeque<FollowUp>,
    pub(crate) runs: Runs,
    pub(crate) calls: Calls,
    pub(crate) transactions: Transactions,
    pub(crate) due: Due,
    pub(crate) slots: Slots,
    pub(crate) gate_prefixes: Prefixes,
    /// The slots of plain functions that have not returned, by the token of their attempt.
    pub(crate) threads: BTreeMap<u64, Slot>,
    pub(crate) lingering: Lingering,
    pub(crate) outages: Outages,
    pub(crate) shards: Shards,
    pub(crate) reports: Reports,
    pub(crate) unserved: UnservedQueues,
    /// Claims of nodes that are gone are being read.
    pub(crate) claims: Claims,
    /// Messages of others are being read.
    pub(crate) messages: CoalescedRead,
    /// It is being read which instances are closed.
    pub(crate) ends: Ends,
    pub(crate) overrides: OverrideState,
    pub(crate) schedules: ScheduleState,
    pub(crate) inbox: InboxRouter,
    pub(crate) sweeper: Sweeper,
    pub(crate) bulk: BulkState,
}

impl Memory {
    /// Nothing is known but what the store wants of the node.
    pub(crate) fn new(
        options: &Options,
        registry: &Registry,
        assignment: Assignment,
        now: Timestamp,
    ) -> Self {
        let gates = Gates::new(options.gates.clone(), now);
        Memory {
            follow_ups: VecDeque::new(),
            runs: Runs::default(),
            calls: Calls::default(),
            transactions: Transactions::default(),
            due: Due::new(options.horizon, now),
            slots: Slots::new(options.slots, registry.limits(), options.queue_slots.clone(), gates),
            gate_prefixes: Prefixes::default(),
            threads: BTreeMap::new(),
            lingering: Lingering::default(),
            outages: Outages::default(),
            shards: Shards::new(assignment),
            reports: Reports::default(),
            unserved: UnservedQueues::default(),
            claims: Claims::default(),
            messages: CoalescedRead::default(),
            ends: Ends::default(),
            overrides: OverrideState::default(),
            schedules: ScheduleState::default(),
            inbox: InboxRouter::default(),
            sweeper: Sweeper::default(),
            bulk: BulkState::default(),
        }
    }
}
