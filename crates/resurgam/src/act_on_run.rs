//! What operators do to runs: pause, resume, restart, reset.

use std::fmt;

use resurgam_core::action::{Action, Reset, ResetTo};
use resurgam_core::{RunKey, Seq};
use resurgam_worker::{Error, Result};

use crate::act::{On, ToActOn};
use crate::{Act, Client};

/// An instance whose run is to be acted on. Nothing is read before that.
///
/// ```
/// use resurgam::prelude::*;
/// use resurgam_testing::TestApp;
/// use std::time::Duration;
///
/// #[activity]
/// async fn ship() -> Result<String, Failure> {
///     Ok("shipped".to_string())
/// }
///
/// #[workflow]
/// async fn order(ctx: WorkflowContext) -> Result<String, Failure> {
///     ctx.signal::<()>("paid").await?;
///     ctx.call(ship()).await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), resurgam::Error> {
/// let app = TestApp::builder().workflow(order).activity(ship).start().await;
/// let instance = app.start("order-42", order()).await;
/// let run = app.client().run("order-42");
///
/// let paused = run.pause().by("ana").reason("the warehouse moves").await?;
/// assert_eq!(paused.to_string(), "paused order-42");
/// app.client().signal("order-42", "paid", &()).await?; // kept until it goes on
/// app.advance(Duration::from_secs(3_600)).await;
/// assert_eq!(app.attempts(ship), 0);
///
/// assert!(run.resume().by("ana").await?.changed());
/// assert_eq!(instance.result().await.unwrap(), "shipped");
/// assert_eq!(run.pause().await?.to_string(), "order-42 is completed; nothing to pause");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RunHandle {
    client: Client,
    of: RunName,
}

/// How a run is named.
#[derive(Clone, Debug)]
pub(crate) enum RunName {
    /// The current run of the instance of this id.
    Current(String),
    Key(RunKey),
}

impl fmt::Display for RunName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunName::Current(id) => f.write_str(id),
            RunName::Key(key) => write!(f, "run {} of instance {}", key.run, key.uid),
        }
    }
}

impl Client {
    /// The current run of an instance, to be acted on.
    pub fn run(&self, id: impl Into<String>) -> RunHandle {
        RunHandle { client: self.clone(), of: RunName::Current(id.into()) }
    }

    /// A run by what identifies it for ever.
    pub fn run_of(&self, key: RunKey) -> RunHandle {
        RunHandle { client: self.clone(), of: RunName::Key(key) }
    }
}

impl RunHandle {
    /// Has the run take no turn until somebody resumes it. Signals, timers and results are kept
    /// until then, and its own timeouts stand still; its open calls go on, see [`Act::calls`].
    pub fn pause(&self) -> Act {
        self.act(Action::PauseRun { calls: false })
    }

    /// Lets a paused run go on, with the calls that were paused with it.
    pub fn resume(&self) -> Act {
        self.act(Action::ResumeRun)
    }

    /// Begins a closed instance again under its id, with the input of its first run, its options
    /// and its tags. It is a new start, with a uid of its own.
    ///
    /// ```
    /// use resurgam::prelude::*;
    /// use resurgam_testing::TestApp;
    ///
    /// #[workflow]
    /// async fn greet(ctx: WorkflowContext, name: String) -> Result<String, Failure> {
    ///     Ok(format!("hello {name}"))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), resurgam::Error> {
    /// let app = TestApp::builder().workflow(greet).start().await;
    /// app.start("greet-1", greet("ada".to_string())).await.result().await.unwrap();
    /// let first = app.client().find("greet-1").await?.expect("it was started");
    /// let restarted = app.client().run("greet-1").restart().by("ana").await?;
    /// assert_eq!(restarted.to_string(), "restarted greet-1");
    /// let again = app.client().find("greet-1").await?.expect("it was started again");
    /// assert_ne!(again.uid, first.uid);
    /// # Ok(())
    /// # }
    /// ```
    pub fn restart(&self) -> Act {
        self.act(Action::Restart)
    }

    /// Has the next run begin with a copy of the history before some event, and go on from there.
    /// The instance may be open or closed. Calls that were open there begin again with fresh
    /// attempts and the same idempotency keys; signals that were taken after that come again, see
    /// [`Act::drop_signals`].
    ///
    /// ```
    /// use resurgam::ResetTo;
    /// use resurgam::prelude::*;
    /// use resurgam_testing::TestApp;
    ///
    /// #[activity]
    /// async fn ship(address: String) -> Result<String, Failure> {
    ///     Ok(address)
    /// }
    ///
    /// #[workflow]
    /// async fn order(ctx: WorkflowContext) -> Result<String, Failure> {
    ///     let address: String = ctx.signal("address").await?;
    ///     ctx.call(ship(address)).await
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), resurgam::Error> {
    /// let app = TestApp::builder()
    ///     .workflow(order)
    ///     .stub(ship, |_, _| Err(Failure::terminal("unknown address")))
    ///     .start()
    ///     .await;
    /// let instance = app.start("order-42", order()).await;
    /// app.signal("order-42", "address", &"nowhere").await?;
    /// instance.failure().await;
    ///
    /// let run = app.client().run("order-42");
    /// let reset = run.reset(ResetTo::Event(resurgam::Seq(2))).drop_signals().by("ana").await?;
    /// assert_eq!(
    ///     reset.to_string(),
    ///     "reset order-42 to event 2 (SignalReceived address); run 2 goes on from there; a \
    ///      signal is dropped"
    /// );
    /// # Ok(())
    /// # }
    /// ```
    pub fn reset(&self, to: ResetTo) -> Act {
        self.act(Action::Reset(Reset::to(to)))
    }

    /// Does what a program asks for that has an action in its hands.
    #[doc(hidden)]
    pub fn does(&self, action: Action) -> Act {
        self.act(action)
    }

    pub(crate) fn act(&self, action: Action) -> Act {
        Act::new(self.client.clone(), On::Run(self.of.clone()), Ok(action))
    }
}

impl Act {
    /// Pauses the open calls of the run too. For [`RunHandle::pause`].
    pub fn calls(mut self) -> Self {
        match &mut self.action {
            Ok(Action::PauseRun { calls }) => *calls = true,
            other => *other = Err("calls are paused with a run".to_string()),
        }
        self
    }

    /// Drops signals that were taken after the place a run goes back to: they do not come again.
    /// For [`RunHandle::reset`].
    pub fn drop_signals(mut self) -> Self {
        match &mut self.action {
            Ok(Action::Reset(reset)) => reset.drop_signals = true,
            other => *other = Err("only a reset can drop signals".to_string()),
        }
        self
    }

    /// Resets a run although it has begun to undo what it did. What is undone stays undone. For
    /// [`RunHandle::reset`].
    pub fn even_if_undone(mut self) -> Self {
        match &mut self.action {
            Ok(Action::Reset(reset)) => reset.even_if_undone = true,
            other => *other = Err("only a reset asks whether anything was undone".to_string()),
        }
        self
    }
}

impl Client {
    /// Finds a run by its name, or the answer that the same request got before.
    pub(crate) async fn run_to_act_on(
        &self,
        what: &str,
        name: &RunName,
        action: &Action,
        request: Option<&str>,
    ) -> Result<ToActOn> {
        let trouble = |error| Error::store(what, error);
        let store = self.handle().store();
        let row = match name {
            RunName::Current(id) => store.find(id).await,
            RunName::Key(key) => store.instance(key.uid).await,
        };
        let row = row.map_err(trouble)?.ok_or_else(|| Error::no_instance(what))?;
        if let Some(id) = request
            && let Some(row) = store.action(row.uid, id).await.map_err(trouble)?
        {
            return Ok(ToActOn::Answered(row.answer));
        }
        if row.status.is_closed() && !action.is_on_closed() {
            let verb = action.name().trim_end_matches("_run");
            let (id, status) = (&row.id, row.status.name());
            return Ok(ToActOn::Refused(format!("{id} is {status}; nothing to {verb}")));
        }
        let run = match name {
            RunName::Current(_) => row.run,
            RunName::Key(key) => key.run,
        };
        Ok(ToActOn::Found(RunKey { uid: row.uid, run }.call(Seq::RUN)))
    }
}
