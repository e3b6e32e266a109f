//! Tells people when the store does not answer: see [`OutageLog`].

use resurgam_core::{CallKey, Uid};
use resurgam_store::outage::{Asked, OutageLog};

use crate::node::Input;

/// Takes note of whether the store has answered what an input is about. Reads that are
/// refused are asked again by whoever gets the answer.
pub(crate) fn note_answer(log: &OutageLog, input: &Input) {
    match input {
        Input::Role(answer) => log.heard(("ask to work", 0), answer),
        Input::DueMessagesRead { found } => log.heard(("look for messages", 0), found),
        Input::Closed { found } => log.heard(("look for closed instances", 0), found),
        Input::Missing { found } => log.heard(("look for instances that are gone", 0), found),
        Input::Scanned { found } => log.heard(("read what is due", 0), found),
        Input::AbandonedFound { found } => log.heard(("read abandoned claims", 0), found),
        Input::Abandoned { found, .. } => log.heard(("read tasks of abandoned claims", 0), found),
        Input::HeldUp { found, .. } => {
            log.heard(("read which runs could not go on", 0), found);
        }
        Input::RemoteTasksRead { found, .. } => {
            log.heard(("ask whether calls are wanted", 0), found);
        }
        Input::SharedClaimed { claimed, .. } => {
            log.heard(("claim tasks that others leave", 0), claimed);
        }
        Input::SchedulesDue { found } => log.heard(("read due schedules", 0), found),
        Input::InboxRead { found } => log.heard(("read the inbox", 0), found),
        Input::MessagesRead { uid, found, .. } => log.heard(of("read messages", *uid), found),
        Input::RunLoaded { uid, loaded } => log.heard(of("read a run", *uid), loaded),
        Input::TaskLoaded { call, loaded } => log.heard(of_call("read a task", call), loaded),
        Input::Transacted { ask, answer } => {
            log.heard(of_call("run a transaction", &ask.call), answer);
        }
        _ => {}
    }
}

/// One instance that cannot be read is in trouble for itself, however many others can.
fn of(what: &'static str, uid: Uid) -> Asked {
    // Two that share these bits are told as one.
    (what, uid.0 as u64)
}

fn of_call(what: &'static str, call: &CallKey) -> Asked {
    (what, bits_of(call))
}

/// What tells a call from others, nearly always.
pub(crate) fn bits_of(call: &CallKey) -> u64 {
    (call.run.uid.0 as u64).wrapping_add(call.seq.0)
}
