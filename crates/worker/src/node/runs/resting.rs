//! Runs that take no turns: those that an operator acts on, and those that are paused.
//!
//! Whoever acts on a run must know all of it, and nothing of it may change meanwhile. So the run is
//! brought to rest first: it leaves memory when its step is durable, and is read when nothing of it
//! is on its way any more. News for it is stored as for any run that is not in memory, and it is
//! loaded when the action is durable.
//!
//! A paused run is not in memory either. Its messages are parked, so that nobody who looks for work
//! finds them; one that comes later is found, and looked at, because somebody may want the run to
//! end. Parking is done for all messages of an instance at once, also for those that came after the
//! look; therefore there is another look after it, until it finds nothing new.

use resurgam_core::Uid;

use super::acts::RunAct;
use crate::node::Node;
use crate::node::store_request::StoreRequest;

impl Node {
    /// Looks at a paused instance: there may be messages.
    pub(crate) fn look_at_paused(&mut self, uid: Uid) {
        let Some(paused) = self.memory.runs.paused.get_mut(&uid) else { return };
        if paused.begins_look(&mut self.ticks) {
            self.ask_store_of(uid, StoreRequest::PausedRun(uid));
        }
    }

    /// Reads a run that is acted on: nothing of it is on its way any more.
    pub(crate) fn read_run_to_act_on(&mut self, uid: Uid) {
        let Some(acts) = self.memory.runs.acted_on.get(&uid) else { return };
        let asked = acts.first().and_then(RunAct::asked).map(Box::new);
        self.ask_store_of(uid, StoreRequest::RunToActOn { uid, asked });
    }
}
