//! The stored form of messages.
//!
//! A message is stored in the form of the event that it becomes, with the run that it belongs to
//! beside it. A start has no form of its own: its workflow and argument are in the instance's row.

use resurgam_core::action::Action;
use resurgam_core::event::Stored;
use resurgam_core::{EventKind, Payload, Seq};
use serde::{Deserialize, Serialize};

use crate::report::Report;
use crate::rows::{ActionRequest, Message};

/// The kind of the message that begins an instance.
const START: &str = "Start";

impl Message {
    /// The run that it belongs to, and its stored form.
    pub fn to_stored(&self) -> (Option<u32>, Stored) {
        let (run, event) = match self.clone() {
            Message::Start => {
                return (None, Stored { kind: START, head: "{}".to_string(), body: None });
            }
            Message::Timer { run, timer } => (Some(run), EventKind::TimerFired { timer }),
            Message::Signal { name, value } => {
                (None, EventKind::SignalReceived { name, value, id: None })
            }
            Message::Cancel { reason } => (None, EventKind::CancelRequested { reason }),
            Message::Terminate { reason } => (None, EventKind::TerminateRequested { reason }),
            Message::Result { run, event } => (Some(run), event),
            Message::Report { run, report } => {
                let (head, body) = report.to_stored();
                return (Some(run), Stored { kind: Report::KIND, head, body });
            }
            Message::Action { run, activity, request } => {
                let (head, body) = request.to_stored(run, activity);
                return (self.run(), Stored { kind: Message::ACTION, head, body });
            }
        };
        (run, event.to_stored())
    }

    /// Reads what [`Message::to_stored`] wrote.
    pub fn from_stored(
        run: Option<u32>,
        kind: &str,
        head: &str,
        body: Option<Payload>,
    ) -> Result<Self, String> {
        match kind {
            START => Ok(Message::Start),
            Report::KIND => {
                let report = Box::new(Report::from_stored(head, body)?);
                Ok(Message::Report { run: known(run)?, report })
            }
            Message::ACTION => {
                let (of_run, activity, request) = ActionRequest::from_stored(head, body)?;
                let run = known(run.or(of_run))?;
                Ok(Message::Action { run, activity, request: Box::new(request) })
            }
            kind => Message::of_event(run, EventKind::from_stored(kind, head, body)?),
        }
    }

    fn of_event(run: Option<u32>, event: EventKind) -> Result<Self, String> {
        Ok(match event {
            EventKind::TimerFired { timer } => Message::Timer { run: known(run)?, timer },
            EventKind::SignalReceived { name, value, .. } => Message::Signal { name, value },
            EventKind::CancelRequested { reason } => Message::Cancel { reason },
            EventKind::TerminateRequested { reason } => Message::Terminate { reason },
            EventKind::ActivityCompleted(_)
            | EventKind::ActivityFailed(_)
            | EventKind::ChildCompleted { .. }
            | EventKind::ChildFailed { .. }
            | EventKind::RunTimedOut { .. } => Message::Result { run: known(run)?, event },
            other => return Err(format!("{} is no message", other.name())),
        })
    }
}

/// The stored form of a request for an action, apart from the user's value. Additive: unknown
/// fields are ignored.
#[derive(Debug, Serialize, Deserialize)]
struct RequestHead {
    v: u32,
    activity: Seq,
    /// The run, of an action on a run: its message does not belong to the run, and outlives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<u32>,
    id: String,
    by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The action in its own stored form.
    what: String,
}

impl ActionRequest {
    /// The engine's part as text, and the user's value.
    fn to_stored(&self, run: u32, activity: Seq) -> (String, Option<Payload>) {
        let (what, body) = self.action.to_stored();
        let ActionRequest { id, by, reason, .. } = self.clone();
        let run = Some(run).filter(|_| activity == Seq::RUN);
        let head = RequestHead { v: 1, activity, run, id, by, reason, what };
        let text = serde_json::to_string(&head).expect("a request holds nothing that JSON cannot");
        (text, body)
    }

    fn from_stored(head: &str, body: Option<Payload>) -> Result<(Option<u32>, Seq, Self), String> {
        let head: RequestHead =
            serde_json::from_str(head).map_err(|error| format!("request: {error}"))?;
        let RequestHead { run, activity, id, by, reason, what, .. } = head;
        let action = Action::from_stored(&what, body)?;
        Ok((run, activity, ActionRequest { id, by, reason, action }))
    }
}

fn known(run: Option<u32>) -> Result<u32, String> {
    run.ok_or_else(|| "the run is missing".to_string())
}

#[cfg(test)]
mod tests {
    use resurgam_core::event::RunStarted;
    use resurgam_core::{Seq, Timestamp};
    use resurgam_watchdog::test;

    use super::*;
    use crate::report::Reported;

    #[test]
    fn what_is_stored_is_read_back() {
        let report = Report {
            activity: Seq(3),
            token: 7,
            at: Timestamp::EPOCH,
            outcome: Reported::Completed(Payload::from_text("[1]")),
            heartbeat: None,
        };
        let request = ActionRequest {
            id: "ticket-17".to_string(),
            by: "ana".to_string(),
            reason: None,
            action: Action::Complete { value: Payload::from_text("[1]"), unchecked: false },
        };
        let timed_out = EventKind::RunTimedOut { total: true };
        for message in [
            Message::Start,
            Message::Timer { run: 2, timer: Seq(4) },
            Message::Signal { name: "paid".to_string(), value: Payload::null() },
            Message::Cancel { reason: "late".to_string() },
            Message::Terminate { reason: String::new() },
            Message::Result { run: 2, event: timed_out },
            Message::Report { run: 2, report: Box::new(report) },
            Message::Action { run: 2, activity: Seq(3), request: Box::new(request.clone()) },
            Message::Action { run: 2, activity: Seq::RUN, request: Box::new(request) },
        ] {
            let (run, Stored { kind, head, body }) = message.to_stored();
            assert_eq!(run, message.run());
            assert_eq!(Message::from_stored(run, kind, &head, body), Ok(message));
        }
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let read = |run, event: &EventKind| {
            let Stored { kind, head, body } = event.to_stored();
            Message::from_stored(run, kind, &head, body).unwrap_err()
        };
        let timer = EventKind::TimerFired { timer: Seq(4) };
        assert_eq!(read(None, &timer), "the run is missing");
        let started = EventKind::RunStarted(RunStarted::new("fulfil", Payload::null(), 1));
        assert_eq!(read(Some(1), &started), "RunStarted is no message");
    }
}
