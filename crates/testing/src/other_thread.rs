//! A thread that takes turns, as an interpreter has one: every test of the engine can be run with
//! it.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use resurgam::{PendingTurn, TurnThread};

/// The variable that has turns taken elsewhere.
const VARIABLE: &str = "RESURGAM_TEST_TURNS";

/// A thread that takes turns and does nothing else.
#[derive(Debug)]
struct OtherThread(Mutex<Sender<PendingTurn>>);

impl TurnThread for OtherThread {
    fn take(&self, turn: PendingTurn) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _the_thread_has_ended = sender.send(turn);
    }
}

/// Such a thread, where the tests of this process are to run with one.
pub(crate) fn chosen() -> Option<Arc<dyn TurnThread>> {
    match std::env::var(VARIABLE).as_deref() {
        Ok("elsewhere") => {}
        Ok(other) => panic!("{VARIABLE}={other}: only elsewhere is known"),
        Err(_) => return None,
    }
    let (sender, turns) = channel::<PendingTurn>();
    std::thread::spawn(move || turns.into_iter().for_each(PendingTurn::take));
    Some(Arc::new(OtherThread(Mutex::new(sender))))
}
