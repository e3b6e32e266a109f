//! What a run that is away wanted to hear of calls that it gave up: its machine is not to be asked
//! in the middle of a turn.

use std::collections::BTreeMap;

use resurgam_core::Seq;
use resurgam_core::turn::Run;

/// What a run wanted to hear of calls that it gave up, while its code is away.
#[derive(Debug)]
pub(crate) struct Settling {
    /// Those calls; true for one whose end has a bound in time.
    calls: BTreeMap<Seq, bool>,
    may_have_to_undo: bool,
}

impl Settling {
    /// As it is now.
    pub(super) fn of(code: &Run) -> Self {
        let machine = code.machine().lock();
        let calls = machine.settling().into_iter();
        Settling {
            calls: calls.map(|seq| (seq, machine.settles_in_grace(seq))).collect(),
            may_have_to_undo: machine.may_have_to_undo(),
        }
    }

    pub(super) fn is_settling(&self, call: Seq) -> bool {
        self.calls.contains_key(&call)
    }

    pub(super) fn settles_in_grace(&self, call: Seq) -> bool {
        self.calls.get(&call).is_some_and(|in_grace| *in_grace)
    }

    pub(super) fn wants_late_end(&self, call: Seq) -> bool {
        self.is_settling(call) || self.may_have_to_undo
    }
}
