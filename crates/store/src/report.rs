//! Reports: what an attempt says that runs on another node than the one that holds its shard.
//!
//! Only the holder of a shard writes its tasks and decides what follows. So the node that runs the
//! attempt leaves a message, and names the token of its claim: a report of an attempt that is over
//! by then changes nothing.

use resurgam_core::{Failure, Payload, Seq, Timestamp};
use serde::{Deserialize, Serialize};

use crate::rows::Heartbeat;

/// What an attempt reports from another node.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The call.
    pub activity: Seq,
    /// What the claim was made with.
    pub token: u64,
    /// When it said so.
    pub at: Timestamp,
    /// How it ended.
    pub outcome: Reported,
    /// What it said last while it ran; a success has no use for it.
    pub heartbeat: Option<Heartbeat>,
}

/// How an attempt ended, as its node tells it.
#[derive(Clone, Debug, PartialEq)]
pub enum Reported {
    /// With a result.
    Completed(Payload),
    /// Without.
    Failed(Failure),
    /// Its time is up. Its code goes on until the grace period is over, and reports again then.
    TimeUp(Failure),
    /// A graceful stop of the node cut it short.
    Interrupted,
    /// The node claimed it and its code never began.
    NeverBegan,
    /// The node claimed it, and lacks this to run it: its code never began.
    Lacks(String),
    /// It goes on, and has a heartbeat to tell.
    GoesOn,
}

/// The stored form of a report, apart from the user's value. Additive: unknown fields are ignored.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    v: u32,
    activity: Seq,
    token: u64,
    at: i64,
    outcome: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<Failure>,
    /// Its code has not returned. A version that does not know of this takes it as the end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    lingers: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lacks: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    heartbeat_at: Option<i64>,
}

impl Report {
    /// The kind of message that it is, as it is stored.
    pub const KIND: &'static str = "Report";

    /// The id of its message: a report that comes twice has the same.
    pub fn id(&self, run: u32) -> String {
        let end = Report::end_id(run, self.activity, self.token);
        match (&self.outcome, &self.heartbeat) {
            (Reported::GoesOn, Some(told)) => format!("{end}/{}", told.at.as_millis()),
            (Reported::TimeUp(_), _) => format!("{end}/time-up"),
            _ => end,
        }
    }

    /// The id of the message that tells how an attempt ended.
    pub fn end_id(run: u32, activity: Seq, token: u64) -> String {
        format!("report/{run}/{activity}/{token:016x}")
    }

    /// The engine's part as text, and the user's value.
    pub fn to_stored(&self) -> (String, Option<Payload>) {
        let told = self.heartbeat.as_ref();
        let (outcome, failure, body) = match &self.outcome {
            Reported::Completed(result) => ("completed", None, Some(result)),
            Reported::Failed(failure) | Reported::TimeUp(failure) => {
                ("failed", Some(failure.clone()), None)
            }
            Reported::Interrupted => ("interrupted", None, None),
            Reported::NeverBegan | Reported::Lacks(_) => ("never-began", None, None),
            Reported::GoesOn => ("goes-on", None, None),
        };
        let told = told.filter(|_| body.is_none());
        let lacks = match &self.outcome {
            Reported::Lacks(what) => Some(what.clone()),
            _ => None,
        };
        let head = Head {
            v: 1,
            activity: self.activity,
            token: self.token,
            at: self.at.as_millis(),
            outcome: outcome.to_string(),
            failure,
            lingers: matches!(self.outcome, Reported::TimeUp(_)),
            lacks,
            heartbeat_at: told.map(|told| told.at.as_millis()),
        };
        let text = serde_json::to_string(&head).expect("a report holds nothing that JSON cannot");
        (text, body.or(told.map(|told| &told.details)).cloned())
    }

    /// Reads what [`Report::to_stored`] wrote.
    pub fn from_stored(head: &str, body: Option<Payload>) -> Result<Self, String> {
        let head: Head = serde_json::from_str(head).map_err(|error| format!("report: {error}"))?;
        let told =
            |details: Payload, at: i64| Heartbeat { details, at: Timestamp::from_millis(at) };
        let heartbeat = body.clone().zip(head.heartbeat_at).map(|(details, at)| told(details, at));
        let outcome = match head.outcome.as_str() {
            "completed" => Reported::Completed(body.ok_or("report: the result is missing")?),
            "failed" => {
                let failure = head.failure.ok_or("report: the failure is missing")?;
                if head.lingers { Reported::TimeUp(failure) } else { Reported::Failed(failure) }
            }
            "interrupted" => Reported::Interrupted,
            "never-began" => head.lacks.map_or(Reported::NeverBegan, Reported::Lacks),
            "goes-on" => Reported::GoesOn,
            other => return Err(format!("report: the outcome {other:?} is unknown")),
        };
        let at = Timestamp::from_millis(head.at);
        Ok(Report { activity: head.activity, token: head.token, at, outcome, heartbeat })
    }
}

#[cfg(test)]
mod tests {
    use resurgam_core::Kind;
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn what_is_stored_is_read_back() {
        let told = Heartbeat { details: Payload::from_text("7"), at: Timestamp::from_millis(12) };
        let outcomes = [
            (Reported::Completed(Payload::from_text("[1]")), None),
            (Reported::Failed(Failure::retryable("down")), Some(told.clone())),
            (Reported::Failed(Failure::retryable("down")), None),
            (Reported::TimeUp(Failure::of_kind(Kind::TotalTimeout, "late")), Some(told.clone())),
            (Reported::Interrupted, Some(told.clone())),
            (Reported::NeverBegan, None),
            (Reported::Lacks("the key 1f2e".to_string()), None),
            (Reported::GoesOn, Some(told)),
        ];
        for (outcome, heartbeat) in outcomes {
            let at = Timestamp::from_millis(13);
            let report = Report { activity: Seq(3), token: u64::MAX, at, outcome, heartbeat };
            let (head, body) = report.to_stored();
            assert_eq!(Report::from_stored(&head, body), Ok(report));
        }
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let head = |outcome: &str| {
            format!(r#"{{"v":1,"activity":3,"token":1,"at":5,"outcome":"{outcome}"}}"#)
        };
        let read = |head: &str| Report::from_stored(head, None).unwrap_err();
        assert_eq!(read(&head("completed")), "report: the result is missing");
        assert_eq!(read(&head("failed")), "report: the failure is missing");
        assert_eq!(read(&head("lost")), "report: the outcome \"lost\" is unknown");
        assert!(read("{}").starts_with("report: missing field"), "{}", read("{}"));
    }

    #[test]
    fn a_report_that_comes_twice_has_the_same_id_and_heartbeats_have_their_own() {
        let report = |outcome, at| Report {
            activity: Seq(3),
            token: 1,
            at: Timestamp::EPOCH,
            outcome,
            heartbeat: Some(Heartbeat { details: Payload::null(), at: Timestamp::from_millis(at) }),
        };
        let id = |outcome, at| report(outcome, at).id(2);
        assert_eq!(id(Reported::Interrupted, 5), "report/2/3/0000000000000001");
        assert_eq!(id(Reported::Interrupted, 6), id(Reported::Interrupted, 5));
        assert_ne!(id(Reported::GoesOn, 6), id(Reported::GoesOn, 5));
        let time_up = Reported::TimeUp(Failure::of_kind(Kind::TotalTimeout, "late"));
        assert_ne!(id(time_up, 5), id(Reported::Interrupted, 5));
    }
}
