//! Turns that are taken elsewhere: on a thread of whoever interprets the workflows.
//!
//! The engine polls workflows on its own thread, which costs next to nothing. Code that needs
//! something others may hold for long, such as the lock of an interpreter, would hold up everything
//! else there: timers, commits, the attempts of other workflows. Its turns are handed to a
//! [`TurnThread`] instead. The run is *away* meanwhile: what happens to it waits until it is back.

use std::fmt;

/// Takes turns of workflows, each of them once, in the order in which they come.
///
/// A turn may take as long as it needs: only its own run waits. One that is dropped without being
/// taken leaves its run where it is until the process ends.
///
/// ```
/// use std::sync::{Arc, Mutex, mpsc};
///
/// use resurgam::prelude::*;
/// use resurgam::{PendingTurn, TurnThread, WorkflowDefinition};
/// use resurgam_testing::TestApp;
///
/// #[workflow]
/// async fn greet(_ctx: WorkflowContext, name: String) -> Result<String, Failure> {
///     Ok(format!("hello {name}"))
/// }
///
/// /// A thread that does nothing else.
/// #[derive(Debug)]
/// struct Interpreter(Mutex<mpsc::Sender<PendingTurn>>);
///
/// impl TurnThread for Interpreter {
///     fn take(&self, turn: PendingTurn) {
///         let _ended = self.0.lock().unwrap().send(turn);
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (sender, turns) = mpsc::channel::<PendingTurn>();
/// std::thread::spawn(move || turns.into_iter().for_each(PendingTurn::take));
/// let thread = Arc::new(Interpreter(Mutex::new(sender)));
/// let definition = WorkflowDefinition::of::<greet>().taking_turns_on(thread);
/// let app = TestApp::builder().workflow_definition(definition).start().await;
/// let run = app.start("greet-1", greet("Ada".to_string())).await;
/// assert_eq!(run.result().await.unwrap(), "hello Ada");
/// # }
/// ```
pub trait TurnThread: fmt::Debug + Send + Sync {
    /// Takes a turn later, on another thread. The engine calls this on its own thread: it must not
    /// wait for anything.
    fn take(&self, turn: PendingTurn);
}

/// A turn that somebody else is to take, or the replay of a history.
///
/// ```
/// use std::sync::{Arc, atomic::{AtomicBool, Ordering}};
///
/// use resurgam::PendingTurn;
///
/// let taken = Arc::new(AtomicBool::new(false));
/// let seen = taken.clone();
/// PendingTurn::new(move || seen.store(true, Ordering::Relaxed)).take();
/// assert!(taken.load(Ordering::Relaxed));
/// ```
pub struct PendingTurn(Box<dyn FnOnce() + Send>);

impl PendingTurn {
    /// A turn that is taken by calling this.
    pub fn new(take: impl FnOnce() + Send + 'static) -> Self {
        PendingTurn(Box::new(take))
    }

    /// Takes the turn. The engine hears of it by itself.
    pub fn take(self) {
        (self.0)();
    }
}

impl fmt::Debug for PendingTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a turn")
    }
}
