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
///
/// // One with a rest, which is taken later.
/// let turn = PendingTurn::in_slices(|_more| Some(PendingTurn::new(|| ())));
/// let rest = turn.take_while(|| false).expect("a rest");
/// assert!(rest.take_while(|| false).is_none());
/// ```
pub struct PendingTurn(Box<Slice>);

/// Takes as much as the argument lets it, and answers with the rest.
type Slice = dyn FnOnce(&mut dyn FnMut() -> bool) -> Option<PendingTurn> + Send;

impl PendingTurn {
    /// A turn that is taken by calling this.
    pub fn new(take: impl FnOnce() + Send + 'static) -> Self {
        PendingTurn::in_slices(|_| {
            take();
            None
        })
    }

    /// A turn that can be taken in slices: `take` does one part at least, goes on as long as its
    /// argument answers with `true`, and answers with the rest when there is one.
    pub fn in_slices(
        take: impl FnOnce(&mut dyn FnMut() -> bool) -> Option<PendingTurn> + Send + 'static,
    ) -> Self {
        PendingTurn(Box::new(take))
    }

    /// Takes the turn. The engine hears of it by itself.
    pub fn take(self) {
        let mut rest = Some(self);
        while let Some(turn) = rest {
            rest = turn.take_while(|| true);
        }
    }

    /// Takes the turn, or a slice of the replay of a long history: that goes on as long as `more`
    /// says so, and what is left comes back, to be taken behind the turns of others. A turn that is
    /// no replay is taken whole.
    pub fn take_while(self, mut more: impl FnMut() -> bool) -> Option<PendingTurn> {
        (self.0)(&mut more)
    }
}

impl fmt::Debug for PendingTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a turn")
    }
}
