//! What is promised about retention: what is closed and old goes with everything of it, nothing
//! else does, and nothing of it comes back.

use std::collections::BTreeMap;
use std::time::Duration;

use resurgam_core::{RunKey, Timestamp, Uid};
use resurgam_store::model::Model;
use resurgam_store::rows::{InstanceFilter, InstanceRow};

use super::{CORRECTED, Promises};

/// The instances that were deleted, as they were.
pub(super) type Swept = BTreeMap<Uid, InstanceRow>;

/// How long a closed instance may stay after its time.
const LATE: Duration = Duration::from_secs(150);

/// All instances.
pub(crate) fn everything() -> InstanceFilter {
    InstanceFilter { limit: usize::MAX, ..InstanceFilter::default() }
}

impl Promises {
    /// A piece of what was closed is deleted. `before` are the instances that were there, and
    /// `stays` is how long each stays.
    pub(crate) fn swept(
        &mut self,
        model: &Model,
        before: Vec<InstanceRow>,
        stays: Option<Duration>,
        now: Timestamp,
    ) {
        for row in before.into_iter().filter(|row| model.instance(row.uid).is_none()) {
            let (uid, id) = (row.uid, row.id.clone());
            let young = |closed_at: Timestamp| {
                let end = stays.map(|stays| closed_at.saturating_add(stays));
                end.is_none_or(|end| now.saturating_add(CORRECTED) < end)
            };
            match row.closed_at {
                None => self.breaks(uid, format!("{id} is deleted, and was open")),
                Some(at) if !self.is_clock_in_doubt && young(at) => {
                    self.breaks(uid, format!("{id} closed at {at} and is deleted at {now}"));
                }
                Some(_) => {}
            }
            let runs = (1..=row.run).map(|run| RunKey { uid, run });
            let has_rest = runs.clone().any(|run| {
                !model.history(run).is_empty()
                    || !model.tasks(run).is_empty()
                    || !model.attempts(run).is_empty()
            });
            if has_rest || !model.messages(uid).is_empty() {
                self.breaks(uid, format!("{id} is deleted, and something of it is left"));
            }
            self.swept.insert(uid, row);
        }
    }

    /// The instance as it was when it was deleted.
    pub(crate) fn was_swept(&self, uid: Uid) -> Option<&InstanceRow> {
        self.swept.get(&uid)
    }

    /// Everything is over: what closed long ago is deleted.
    pub(super) fn retention_at_the_end(
        &mut self,
        model: &Model,
        stays: Option<Duration>,
        now: Timestamp,
    ) {
        let Some(stays) = stays else { return };
        let by = now.saturating_sub(stays.saturating_add(LATE));
        for row in model.list(&everything()) {
            if let Some(at) = row.closed_at.filter(|at| *at < by) {
                let what = format!("{} closed at {at} and is still there at {now}", row.id);
                self.breaks(row.uid, what);
            }
        }
    }
}
