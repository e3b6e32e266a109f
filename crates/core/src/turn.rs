//! Turns: one input, one poll of the workflow's code, the commands it asks for.
//!
//! Pure: no clock, no I/O, no spawning. The same inputs give the same commands, which is what
//! replay relies on: it feeds a history's inputs to the code and compares the commands with the
//! records. Where they differ the run is *blocked*, not failed, until the code is mended.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crate::command::{ActivityCall, Command, CommandKind};
use crate::event::Initiator;
use crate::machine::{SharedMachine, Verdict};
use crate::{Code, Event, EventKind, Failure, Payload, RunKey, Seq, Timestamp};

/// The code of a workflow, begun.
pub type WorkflowFuture = Pin<Box<dyn Future<Output = Result<Payload, Failure>> + Send>>;

/// How often a turn may poll code that wakes itself without asking for anything.
const SELF_WAKES: u32 = 10_000;

/// A run in memory: its code and its machine.
pub struct Run {
    machine: SharedMachine,
    code: Option<WorkflowFuture>,
    woken: Arc<Woken>,
    last: (Seq, Timestamp),
}

/// Why a run cannot go on until its code is mended.
#[derive(Clone, Debug, PartialEq)]
pub enum Blocked {
    /// The code asks for something else than it did the first time.
    Nondeterminism(Box<Mismatch>),
    /// The code panicked.
    Panic {
        /// The input it was taking.
        input: String,
        /// What it said.
        message: String,
    },
    /// The code waits for nothing that the engine knows.
    ForeignAwait,
    /// The code did something that is not durable; the text says what, and what to do instead.
    NotDurable(String),
    /// Something that it needs is missing or cannot be read; the text says what.
    Unreadable(String),
    /// Its workflow, or the version it is on, is not registered; the text says which.
    Unregistered(String),
}

/// How far a run has come with its history, where that is gone through in slices.
#[derive(Debug, Default)]
pub struct Replay {
    /// How many events are done.
    done: usize,
    /// What the code has asked for in its last turn and is not compared with the history yet.
    asked: std::vec::IntoIter<Command>,
}

/// What an interpreter panics with (`std::panic::resume_unwind`) when the code that it runs does
/// something that is not durable: the run is blocked, with this text, until the code is mended.
#[derive(Clone, Debug)]
pub struct NotDurable(pub String);

/// A command that is not the recorded one.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// The place in the history.
    pub seq: Seq,
    /// What is recorded there, if anything is.
    pub recorded: Option<String>,
    /// What the code asks for, if anything.
    pub asked: Option<String>,
}

impl Run {
    /// A run whose code begins with its first turn. `begin` makes the code from the machine.
    pub fn new(key: RunKey, begin: impl FnOnce(SharedMachine) -> WorkflowFuture) -> Self {
        let machine = SharedMachine::new(key);
        let code = Some(begin(machine.clone()));
        Run { machine, code, woken: Arc::default(), last: (Seq(0), Timestamp::EPOCH) }
    }

    /// A run with this history whose code cannot be asked any more. It can be terminated, and
    /// nothing else.
    pub fn without_code(key: RunKey, events: &[Event]) -> Self {
        let machine = SharedMachine::new(key);
        machine.lock().restore(events);
        let last = events.last().map_or((Seq(0), Timestamp::EPOCH), |last| (last.seq, last.at));
        Run { machine, code: None, woken: Arc::default(), last }
    }

    /// Takes an input and answers with what the code asks for.
    ///
    /// # Panics
    /// When the event is not an input, or not the next one: that is a bug of the engine.
    pub fn turn(&mut self, event: &Event) -> Result<Vec<Command>, Blocked> {
        assert!(event.kind.is_input(), "{} is not an input", event.kind.name());
        assert_eq!(event.seq, self.next_seq(), "inputs come in order");
        if event.seq == Seq::FIRST {
            self.machine.lock().begins(event.at);
        }
        let verdict = self.machine.lock().apply(event);
        self.record_compensation(event)?;
        match verdict {
            Verdict::Poll => self.poll(event)?,
            Verdict::Wait => self.machine.lock().advance_ending(),
            Verdict::End(failure) => self.end(Err(failure)),
            Verdict::Terminate(reason) => {
                self.machine.lock().terminate(&reason);
                self.drop_code();
            }
        }
        let commands = self.machine.lock().take_commands();
        let last = commands.last().map_or(event.seq, |command| command.seq);
        self.last = (last, event.at);
        Ok(commands)
    }

    /// An activity that can be undone has completed: what undoes it is worked out now, and
    /// remembered whatever becomes of the code that asked for it.
    fn record_compensation(&mut self, event: &Event) -> Result<(), Blocked> {
        let Some((activity, undo)) = self.machine.lock().take_undo(&event.kind) else {
            return Ok(());
        };
        let EventKind::ActivityCompleted(done) = &event.kind else { return Ok(()) };
        // The user's code: it may use its context, so the machine is not locked.
        let call = catch_unwind(AssertUnwindSafe(|| undo.call(&done.result)))
            .map_err(|panic| panicked(event, &*panic))?;
        self.machine.lock().record_compensation(activity, call);
        Ok(())
    }

    /// The code returned, or is not asked any more.
    fn end(&mut self, returned: Result<Payload, Failure>) {
        self.machine.lock().end(returned);
        self.drop_code();
    }

    /// Goes through a history. Answers with the commands of the last turn that are not recorded
    /// yet: a wide turn may have been cut short by a crash.
    pub fn replay(&mut self, events: &[Event]) -> Result<Vec<Command>, Blocked> {
        self.replay_keeping(events, |_, _| {})
    }

    /// Goes through a history as [`Run::replay`] does, and hands over every recorded call of an
    /// activity as the code asks for it: the record of a call does not have all of its options.
    pub fn replay_keeping(
        &mut self,
        events: &[Event],
        keep: impl FnMut(Seq, ActivityCall),
    ) -> Result<Vec<Command>, Blocked> {
        let whole = self.replay_while(&mut Replay::default(), events, keep, || true)?;
        Ok(whole.unwrap_or_default())
    }

    /// Goes on with a history as [`Run::replay_keeping`] does, for one turn at least and as long as
    /// `more` says so. Answers with `None` when there is more to go through.
    pub fn replay_while(
        &mut self,
        replay: &mut Replay,
        events: &[Event],
        mut keep: impl FnMut(Seq, ActivityCall),
        mut more: impl FnMut() -> bool,
    ) -> Result<Option<Vec<Command>>, Blocked> {
        if replay.done == 0 {
            self.machine.lock().remember(events);
        }
        let begun = replay.done;
        for event in &events[begun..] {
            if is_reset(&event.kind) {
                self.machine.lock().close_by_reset();
                self.drop_code();
                return Ok(Some(Vec::new()));
            }
            if event.kind.is_input() {
                if let Some(command) = replay.asked.next() {
                    return Err(mismatch(event.seq, Some(event), Some(&command)));
                }
                if replay.done > begun && !more() {
                    return Ok(None);
                }
                replay.asked = self.turn(event)?.into_iter();
            } else {
                match replay.asked.next() {
                    Some(command) if command.kind.is_recorded_by(&event.kind) => {
                        if let CommandKind::ScheduleActivity(call) = command.kind {
                            keep(event.seq, call);
                        }
                    }
                    other => return Err(mismatch(event.seq, Some(event), other.as_ref())),
                }
            }
            replay.done += 1;
        }
        Ok(Some(replay.asked.by_ref().collect()))
    }

    /// Destructors of the workflow's values are user code too: a panic there changes nothing.
    fn drop_code(&mut self) {
        let code = self.code.take();
        let _nothing_depends_on_it = catch_unwind(AssertUnwindSafe(|| drop(code)));
    }

    /// The place of the next event.
    pub fn next_seq(&self) -> Seq {
        self.machine.lock().next_seq()
    }

    /// The time of the last event; the next one is not earlier.
    pub fn last_at(&self) -> Timestamp {
        self.last.1
    }

    /// True when the run is over: the code has returned, and what was to be undone is.
    pub fn is_closed(&self) -> bool {
        self.machine.lock().is_closed()
    }

    /// The machine, for looking.
    pub fn machine(&self) -> &SharedMachine {
        &self.machine
    }

    /// Polls the code until it waits for something or returns.
    fn poll(&mut self, event: &Event) -> Result<(), Blocked> {
        let Some(code) = self.code.as_mut() else { return Ok(()) };
        let waker = Waker::from(self.woken.clone());
        let mut context = Context::from_waker(&waker);
        for _ in 0..SELF_WAKES {
            self.woken.0.store(false, Ordering::Relaxed);
            let polled = catch_unwind(AssertUnwindSafe(|| code.as_mut().poll(&mut context)));
            match polled {
                Err(panic) => return Err(panicked(event, &*panic)),
                Ok(Poll::Ready(returned)) => {
                    self.end(returned);
                    return Ok(());
                }
                Ok(Poll::Pending) if self.woken.0.load(Ordering::Relaxed) => {}
                Ok(Poll::Pending) if self.machine.lock().waits_for_something() => return Ok(()),
                Ok(Poll::Pending) => return Err(Blocked::ForeignAwait),
            }
        }
        Err(Blocked::ForeignAwait)
    }
}

/// Dropping a run, because it is evicted or the process stops, cancels nothing.
impl Drop for Run {
    fn drop(&mut self) {
        self.machine.lock().disarm();
        self.drop_code();
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("last", &self.last).field("closed", &self.is_closed()).finish()
    }
}

/// True for the end of a run that an operator reset: its code had no part in that.
fn is_reset(kind: &EventKind) -> bool {
    matches!(kind, EventKind::RunContinued(continued) if continued.initiator == Initiator::Reset)
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn panicked(event: &Event, panic: &(dyn std::any::Any + Send)) -> Blocked {
    if let Some(NotDurable(text)) = panic.downcast_ref() {
        return Blocked::NotDurable(text.clone());
    }
    let input = format!("{} at {}", event.kind.name(), event.seq);
    Blocked::Panic { input, message: panic_message(panic) }
}

fn mismatch(seq: Seq, recorded: Option<&Event>, asked: Option<&Command>) -> Blocked {
    Blocked::Nondeterminism(Box::new(Mismatch {
        seq,
        recorded: recorded.map(|event| crate::history::line(&event.kind)),
        asked: asked.map(|command| crate::history::line(&command.kind.record())),
    }))
}

/// What a panic said.
pub fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_string())
}

impl Blocked {
    /// The code to look it up by.
    pub fn code(&self) -> Code {
        match self {
            Blocked::Nondeterminism(_) => Code::B1,
            Blocked::Panic { .. } => Code::B2,
            Blocked::ForeignAwait | Blocked::NotDurable(_) => Code::B3,
            Blocked::Unreadable(_) => Code::B4,
            Blocked::Unregistered(_) => Code::B5,
        }
    }
}

/// With its code: the text is what is recorded, and all that is left of it later.
impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.code())?;
        match self {
            Blocked::Nondeterminism(mismatch) => mismatch.fmt(f),
            Blocked::Panic { input, message } => {
                write!(f, "the workflow's code panicked while taking {input}: {message}")
            }
            Blocked::ForeignAwait => f.write_str(
                "the workflow awaits something that is not durable (a socket, a channel, tokio's \
                 sleep): wait through ctx, or move the work into an activity",
            ),
            Blocked::NotDurable(what) | Blocked::Unreadable(what) | Blocked::Unregistered(what) => {
                f.write_str(what)
            }
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nothing = "nothing";
        let recorded = self.recorded.as_deref().unwrap_or(nothing);
        let asked = self.asked.as_deref().unwrap_or(nothing);
        write!(
            f,
            "the workflow's code has changed under this run: at event {} its history says\n  \
             {recorded}\nbut the code asks for\n  {asked}\nDeploy code that takes the old way for \
             old runs, or restore the old code; the run then goes on by itself. `resurgam explain \
             B1` lists what else it may be",
            self.seq
        )
    }
}
