//! Which runs a bulk job, or a list, is about.

use resurgam_core::{Failure, Timestamp};
use resurgam_store::rows::{InstanceFilter, InstanceRow, Status};
use resurgam_store::{RunCalls, is_of_kind};
use serde::{Deserialize, Serialize};

/// Which runs: the current ones of instances. Every field narrows it further.
///
/// The last failure of a run that failed is what it failed with; that of another one is the last
/// failed attempt of its calls.
///
/// ```
/// use resurgam_store::rows::Status;
/// use resurgam_worker::RunFilter;
///
/// let failed = RunFilter { status: vec![Status::Failed], ..RunFilter::default() };
/// assert_eq!(failed.workflow, None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunFilter {
    /// Only the instances of these ids; empty for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    /// Only of this workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// Only these statuses; empty for those that the action is for.
    #[serde(with = "statuses", skip_serializing_if = "Vec::is_empty")]
    pub status: Vec<Status>,
    /// Only those with an open call of this activity, or of which one failed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<String>,
    /// Only those whose last failure is of this type, or of one that descends from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_type: Option<String>,
    /// Only those whose last failure has this code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_code: Option<String>,
    /// Only those with an activity that waits to be tried again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub retrying: bool,
    /// Only those with this tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<(String, String)>,
    /// Only those that were started on this queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Only those that were started at this time or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_since: Option<Timestamp>,
    /// Only those whose last failure was at this time or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_since: Option<Timestamp>,
}

mod statuses {
    use resurgam_store::rows::Status;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        list: &[Status],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        list.iter().map(|status| status.name()).collect::<Vec<_>>().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Status>, D::Error> {
        let names = Vec::<String>::deserialize(from)?;
        let unknown = |name: &str| serde::de::Error::custom(format!("the status {name:?}"));
        names.iter().map(|name| Status::named(name).ok_or_else(|| unknown(name))).collect()
    }
}

impl RunFilter {
    /// True when an instance is among them as far as its row says so, whatever its id.
    pub(crate) fn has(&self, row: &InstanceRow) -> bool {
        let tag = |(name, value): &(String, String)| row.tags.get(name) == Some(value);
        self.workflow.as_ref().is_none_or(|workflow| row.workflow == *workflow)
            && (self.status.is_empty() || self.status.contains(&row.status))
            && self.tag.as_ref().is_none_or(tag)
            && self.queue.as_ref().is_none_or(|queue| row.queue == *queue)
            && self.started_since.is_none_or(|since| row.created_at >= since)
    }

    /// True when its calls say whether a run is among them.
    pub(crate) fn needs_calls(&self) -> bool {
        self.activity.is_some()
            || self.failure_type.is_some()
            || self.failure_code.is_some()
            || self.failed_since.is_some()
    }

    /// True when a run is among them as far as its calls, and its own failure, say so.
    pub(crate) fn has_calls(&self, row: &InstanceRow, calls: &RunCalls) -> bool {
        let is_failed = row.status == Status::Failed;
        let outcome = row.outcome.as_ref().filter(|_| is_failed);
        let outcome: Option<Failure> = outcome.and_then(|outcome| outcome.decode().ok());
        let failed = calls.failed.as_ref();
        let failure = outcome.as_ref().or(failed.map(|call| &call.failure));
        let at = if is_failed { row.closed_at } else { failed.map(|call| call.at) };
        let of =
            |wanted: &String| calls.has_open || failed.is_some_and(|call| call.activity == *wanted);
        self.activity.as_ref().is_none_or(of)
            && is_of_kind(failure, self.failure_type.as_ref(), self.failure_code.as_ref())
            && self.failed_since.is_none_or(|since| at.is_some_and(|at| at >= since))
    }

    /// The list that it narrows; ids are looked up one by one.
    pub(crate) fn instances(&self) -> InstanceFilter {
        InstanceFilter {
            status: self.status.clone(),
            workflow: self.workflow.clone(),
            tag: self.tag.clone(),
            retrying: self.retrying,
            since: self.started_since,
            ..InstanceFilter::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use resurgam_core::{Payload, Uid};
    use resurgam_store::FailedCall;
    use resurgam_watchdog::test;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn the_last_failure_of_a_failed_run_is_its_own_and_that_of_another_one_of_its_calls() {
        let mut row = InstanceRow::new(Uid(1), "o-1", "order", Payload::null(), at(1));
        let failure = Failure::new("no").with_type("BankDown").with_code("E7");
        let failed = Some(FailedCall { activity: "charge".into(), failure, at: at(5) });
        let calls = RunCalls { has_open: false, failed };
        let of_type = |name: &str| RunFilter { failure_type: Some(name.into()), ..all() };
        let since = |time| RunFilter { failed_since: Some(at(time)), ..all() };
        let of = |name: &str| RunFilter { activity: Some(name.into()), ..all() };
        let coded = RunFilter { failure_code: Some("E7".into()), ..all() };
        assert!(of_type("BankDown").has_calls(&row, &calls) && coded.has_calls(&row, &calls));
        assert!(since(5).has_calls(&row, &calls) && !since(6).has_calls(&row, &calls));
        assert!(of("charge").has_calls(&row, &calls) && !of("refund").has_calls(&row, &calls));
        assert!(of("refund").has_calls(&row, &RunCalls { has_open: true, ..calls.clone() }));

        row.status = Status::Failed;
        row.closed_at = Some(at(9));
        let outcome = Failure::terminal("given up").with_type("OrderLost");
        row.outcome = Some(Payload::encode(&outcome).unwrap());
        assert!(!of_type("BankDown").has_calls(&row, &calls) && !coded.has_calls(&row, &calls));
        assert!(of_type("OrderLost").has_calls(&row, &calls) && since(9).has_calls(&row, &calls));
        assert!(of("charge").has_calls(&row, &calls));
    }

    fn all() -> RunFilter {
        RunFilter::default()
    }
}
