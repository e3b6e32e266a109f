//! Instances, by uid, id, request, age and end.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use resurgam_core::{Timestamp, Uid};

use crate::rows::{InstanceCursor, InstanceRow, Status};

/// A stored instance.
#[derive(Clone, Debug)]
pub(in crate::model) struct Instance {
    pub(in crate::model) row: InstanceRow,
    /// False when a later start took over the id.
    pub(in crate::model) current: bool,
    /// When it came, among all rows.
    pub(in crate::model) arrival: u64,
}

/// The table of instances.
#[derive(Clone, Debug, Default)]
pub(in crate::model) struct Instances {
    rows: BTreeMap<Uid, Instance>,
    /// The current holder of each id.
    holders: BTreeMap<String, Uid>,
    /// All holders of each id, earlier ones too.
    ids: BTreeSet<(String, Uid)>,
    requests: BTreeMap<String, Uid>,
    /// By age; the newest stand last.
    ages: BTreeMap<(Timestamp, u64), Uid>,
    /// What closed when, status by status.
    closed: BTreeMap<ClosedPlace, Uid>,
    /// Open ones of which is written down why they do not go on.
    held_up: BTreeSet<Uid>,
}

/// The place of an instance among those that closed: its status, when it closed, and when it came.
pub(in crate::model) type ClosedPlace = (&'static str, Timestamp, u64);

impl Instances {
    pub(in crate::model) fn put(&mut self, uid: Uid, row: Option<Instance>) -> Option<Instance> {
        let before = self.rows.remove(&uid);
        if let Some(before) = &before {
            self.leave_indexes(before);
        }
        if let Some(row) = row {
            self.enter_indexes(&row);
            self.rows.insert(uid, row);
        }
        before
    }

    fn enter_indexes(&mut self, Instance { row, current, arrival }: &Instance) {
        let uid = row.uid;
        if *current {
            self.holders.insert(row.id.clone(), uid);
        }
        self.ids.insert((row.id.clone(), uid));
        if let Some(request) = &row.request_id {
            self.requests.insert(request.clone(), uid);
        }
        self.ages.insert((row.created_at, *arrival), uid);
        if let Some(place) = closed_place(row, *arrival) {
            self.closed.insert(place, uid);
        }
        if is_held_up(row) {
            self.held_up.insert(uid);
        }
    }

    fn leave_indexes(&mut self, Instance { row, current, arrival }: &Instance) {
        if *current {
            self.holders.remove(&row.id);
        }
        self.ids.remove(&(row.id.clone(), row.uid));
        if let Some(request) = &row.request_id {
            self.requests.remove(request);
        }
        self.ages.remove(&(row.created_at, *arrival));
        if let Some(place) = closed_place(row, *arrival) {
            self.closed.remove(&place);
        }
        self.held_up.remove(&row.uid);
    }

    pub(in crate::model) fn get(&self, uid: Uid) -> Option<&Instance> {
        self.rows.get(&uid)
    }

    /// The current holder of an id.
    pub(in crate::model) fn holder(&self, id: &str) -> Option<&Instance> {
        self.rows.get(self.holders.get(id)?)
    }

    /// The uids of all holders of an id, earlier ones too.
    pub(in crate::model) fn holders(&self, id: &str) -> impl Iterator<Item = Uid> {
        let all = (id.to_string(), Uid(u128::MIN))..=(id.to_string(), Uid(u128::MAX));
        self.ids.range(all).map(|(_, uid)| *uid)
    }

    /// The instance that was started with a request id.
    pub(in crate::model) fn requested(&self, request: &str) -> Option<&Instance> {
        self.rows.get(self.requests.get(request)?)
    }

    /// Instances behind a place, or all of them, the newest first.
    pub(in crate::model) fn newest(
        &self,
        after: Option<InstanceCursor>,
    ) -> impl Iterator<Item = &InstanceRow> {
        let end = after.map(|InstanceCursor { created_at, uid }| {
            (created_at, self.rows.get(&uid).map_or(u64::MAX, |instance| instance.arrival))
        });
        let end = end.map_or(Bound::Unbounded, Bound::Excluded);
        let ages = self.ages.range((Bound::Unbounded, end)).rev();
        ages.filter_map(|(_, uid)| Some(&self.rows.get(uid)?.row))
    }

    /// Instances that closed with this status after this place, in the order of their end.
    pub(in crate::model) fn closed_after(
        &self,
        status: Status,
        after: (Timestamp, u64),
    ) -> impl Iterator<Item = (Timestamp, u64, &InstanceRow)> {
        let name = status.name();
        let last = (name, Timestamp::from_millis(i64::MAX), u64::MAX);
        let places = self.closed.range((name, after.0, after.1)..=last);
        let places = places.filter(move |((_, at, arrival), _)| (*at, *arrival) > after);
        places.filter_map(|((_, at, arrival), uid)| Some((*at, *arrival, &self.get(*uid)?.row)))
    }

    /// Open instances that do not go on, after this one.
    pub(in crate::model) fn held_up(&self, after: Option<Uid>) -> impl Iterator<Item = Uid> {
        use std::ops::Bound::{Excluded, Unbounded};
        let after = after.map_or(Unbounded, Excluded);
        self.held_up.range((after, Unbounded)).copied()
    }
}

fn closed_place(row: &InstanceRow, arrival: u64) -> Option<ClosedPlace> {
    Some((row.status.name(), row.closed_at?, arrival))
}

fn is_held_up(row: &InstanceRow) -> bool {
    row.error.is_some() && row.closed_at.is_none()
}
