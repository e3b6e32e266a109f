//! What tests ask of an app: starts, signals, ends, and what operators do. All of it happens in
//! virtual time and across crashes.

use std::sync::atomic::Ordering;

use resurgam::{
    Act, Acted, Activity, CallHandle, Client, ClosedFilter, Result, RunHandle, SetPolicy, Start,
    Workflow,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{TestApp, TestInstance};

impl TestApp {
    /// Starts an instance. It is durable when this returns, also when a crash came in between.
    ///
    /// # Panics
    /// When it cannot be started; [`TestApp::try_start`] tells why instead.
    pub async fn start<W: Workflow>(&self, id: &str, workflow: W) -> TestInstance<W::Output> {
        self.start_plainly(id, W::NAME, resurgam::Payload::encode(&workflow)).await.typed()
    }

    /// Starts an instance with options. It is durable when this returns, also when a crash came in
    /// between.
    ///
    /// # Panics
    /// When it cannot be started.
    pub async fn start_with<W: Workflow>(
        &self,
        id: &str,
        workflow: W,
        options: impl Fn(Start<W::Output>) -> Start<W::Output>,
    ) -> TestInstance<W::Output> {
        self.start_as(id, W::NAME, &workflow, options).await
    }

    /// Starts an instance of a workflow that is known by its name only.
    ///
    /// # Panics
    /// When it cannot be started.
    pub async fn start_named<T: DeserializeOwned + Send + 'static>(
        &self,
        id: &str,
        workflow: &str,
        argument: &impl Serialize,
    ) -> TestInstance<T> {
        self.start_plainly(id, workflow, resurgam::Payload::encode(argument)).await.typed()
    }

    /// Starts an instance without options. Not generic, so that it is compiled once.
    async fn start_plainly(
        &self,
        id: &str,
        workflow: &str,
        argument: serde_json::Result<resurgam::Payload>,
    ) -> TestInstance<Raw> {
        let argument = argument.expect("an argument with a JSON form");
        let raw: Raw = argument.decode().expect("JSON that was just written");
        self.start_as(id, workflow, &raw, |start| start).await
    }

    async fn start_as<T: DeserializeOwned + Send + 'static>(
        &self,
        id: &str,
        workflow: &str,
        argument: &impl Serialize,
        options: impl Fn(Start<T>) -> Start<T>,
    ) -> TestInstance<T> {
        let argument = resurgam::Payload::encode(argument).expect("an argument with a JSON form");
        let raw: Raw = argument.decode().expect("JSON that was just written");
        let request = self.0.requests.fetch_add(1, Ordering::Relaxed);
        let what = format!("start {id}");
        let started = self.wait(&what, || {
            let start = self.client().start_named::<T>(id, workflow, &raw);
            let start = options(start.request_id(format!("test-start-{request}")));
            async move { start.await }
        });
        match started.await {
            Ok(instance) => TestInstance::new(self.clone(), &instance),
            Err(error) => panic!("{error}"),
        }
    }

    /// An instance that was started before, by its id, whoever started it.
    ///
    /// ```
    /// use resurgam::prelude::*;
    /// use resurgam_testing::TestApp;
    ///
    /// #[workflow]
    /// async fn answer(_ctx: WorkflowContext) -> Result<u32, Failure> {
    ///     Ok(42)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let app = TestApp::builder().workflow(answer).start().await;
    /// app.client().start("answer-1", answer()).await.unwrap();
    /// let run = app.instance::<u32>("answer-1").await.expect("it was started");
    /// assert_eq!(run.result().await.unwrap(), 42);
    /// assert!(app.instance::<u32>("answer-2").await.is_none());
    /// # }
    /// ```
    ///
    /// # Panics
    /// When the store cannot be read.
    pub async fn instance<T: DeserializeOwned>(&self, id: &str) -> Option<TestInstance<T>> {
        let found = self.client().instance::<T>(id).await.expect("a store that can be read");
        found.map(|instance| TestInstance::new(self.clone(), &instance))
    }

    /// Starts an instance, or says why it cannot be started.
    pub async fn try_start<W: Workflow>(
        &self,
        id: &str,
        workflow: W,
    ) -> Result<TestInstance<W::Output>> {
        let instance = self.client().start(id, workflow).await?;
        Ok(TestInstance::new(self.clone(), &instance))
    }

    /// Runs one activity durably, without a workflow. It is durable when this returns, also when a
    /// crash came in between.
    pub async fn submit<A: Activity>(
        &self,
        id: &str,
        activity: A,
    ) -> Result<TestInstance<A::Output>> {
        self.submit_with(id, activity, |start| start).await
    }

    /// Runs one activity durably, with options as [`Client::submit`] has them. It is durable when
    /// this returns, also when a crash came in between.
    pub async fn submit_with<A: Activity>(
        &self,
        id: &str,
        activity: A,
        options: impl Fn(Start<A::Output>) -> Start<A::Output>,
    ) -> Result<TestInstance<A::Output>> {
        let Ok(call) = resurgam::Payload::encode(&activity) else {
            // What has no JSON form is refused before anything could crash.
            let instance = options(self.client().submit(id, activity)).await?;
            return Ok(TestInstance::new(self.clone(), &instance));
        };
        let request = self.0.requests.fetch_add(1, Ordering::Relaxed);
        let what = format!("submit {id}");
        let submitted = self.wait(&what, || {
            let activity: A = call.decode().expect("JSON that was just written");
            let start = self.client().submit(id, activity);
            let start = options(start.request_id(format!("test-submit-{request}")));
            async move { start.await }
        });
        Ok(TestInstance::new(self.clone(), &submitted.await?))
    }

    /// Sends a signal.
    pub async fn signal(&self, id: &str, name: &str, value: &impl Serialize) -> Result<()> {
        let request = self.0.requests.fetch_add(1, Ordering::Relaxed);
        self.wait("send a signal", || {
            let client = self.client();
            async move { client.signal_once(id, name, value, format!("test-{request}")).await }
        })
        .await
    }

    /// Asks an instance to end.
    pub async fn cancel(&self, id: &str, reason: &str) -> Result<()> {
        self.wait("cancel", || {
            let client = self.client();
            async move { client.cancel(id, reason).await }
        })
        .await
    }

    /// Deletes closed instances, however many.
    pub async fn delete_closed(&self, filter: ClosedFilter) -> Result<u64> {
        self.wait("delete closed instances", || {
            let (client, filter) = (self.client(), filter.clone());
            async move { client.delete_closed(filter).await }
        })
        .await
    }

    /// Asks a [client](Self::client) for something, in virtual time and across crashes: what a
    /// crash cut short is asked again.
    ///
    /// ```
    /// use resurgam::PausedFilter;
    /// use resurgam_testing::TestApp;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), resurgam::Error> {
    /// let app = TestApp::builder().start().await;
    /// let all = PausedFilter::default();
    /// let resumed = app.ask("resume all", |client| client.resume_paused(all.clone())).await?;
    /// assert_eq!(resumed.counts.changed, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn ask<T, A>(&self, what: &str, ask: impl Fn(&Client) -> A) -> Result<T>
    where
        A: IntoFuture<Output = Result<T>>,
    {
        self.wait(what, || ask(&self.client()).into_future()).await
    }

    /// Ends an instance at once.
    pub async fn terminate(&self, id: &str, reason: &str) -> Result<()> {
        self.wait("terminate", || {
            let client = self.client();
            async move { client.terminate(id, reason).await }
        })
        .await
    }

    /// Does to a call what an operator does, once, also when a crash came in between.
    ///
    /// ```
    /// use resurgam::prelude::*;
    /// use resurgam_testing::TestApp;
    /// use std::time::Duration;
    ///
    /// #[activity(retry = RetryPolicy::fixed(Duration::from_secs(60)).unlimited())]
    /// async fn ring() -> Result<(), Failure> {
    ///     Err(Failure::new("nobody is there"))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), resurgam::Error> {
    /// let app = TestApp::builder().activity(ring).start().await;
    /// let visit = app.submit("visit", ring()).await?;
    /// app.advance(Duration::from_secs(90)).await;
    /// let failed = app.act("visit", "ring", |call| call.fail("they moved").by("ana")).await?;
    /// assert_eq!(failed.to_string(), "failed ring#2");
    /// assert_eq!(visit.failure().await.why.as_deref(), Some("operator"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn act(
        &self,
        id: &str,
        call: &str,
        act: impl Fn(&CallHandle) -> Act,
    ) -> Result<Acted> {
        let request = self.0.requests.fetch_add(1, Ordering::Relaxed);
        self.wait("act on a call", || {
            let act = act(&self.client().call(id, call)).request_id(format!("test-act-{request}"));
            async move { act.await }
        })
        .await
    }

    /// Does something to a run, as an operator would: see [`RunHandle`]. A crash on the way makes
    /// no difference: the action is carried out once.
    ///
    /// ```
    /// use resurgam::prelude::*;
    /// use resurgam_testing::TestApp;
    ///
    /// #[workflow]
    /// async fn visit(ctx: WorkflowContext) -> Result<String, Failure> {
    ///     ctx.signal("say").await
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), resurgam::Error> {
    /// let app = TestApp::builder().workflow(visit).start().await;
    /// app.start("visit-1", visit()).await;
    /// let paused = app.act_on_run("visit-1", |run| run.pause().by("ana")).await?;
    /// assert_eq!(paused.to_string(), "paused visit-1");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn act_on_run(&self, id: &str, act: impl Fn(&RunHandle) -> Act) -> Result<Acted> {
        let request = self.0.requests.fetch_add(1, Ordering::Relaxed);
        self.wait("act on a run", || {
            let act = act(&self.client().run(id)).request_id(format!("test-act-{request}"));
            async move { act.await }
        })
        .await
    }

    /// Sets a policy for all calls of an activity, or removes it, also when a crash came in
    /// between.
    ///
    /// ```
    /// use resurgam::prelude::*;
    /// use resurgam_testing::TestApp;
    /// use std::time::Duration;
    ///
    /// #[activity(retry = RetryPolicy::fixed(Duration::from_secs(60)).unlimited())]
    /// async fn ring() -> Result<(), Failure> {
    ///     Err(Failure::new("nobody is there"))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), resurgam::Error> {
    /// let app = TestApp::builder().activity(ring).start().await;
    /// let visit = app.submit("visit", ring()).await?;
    /// app.advance(Duration::from_secs(30)).await;
    /// app.set_policy(|client| client.set_policy("ring", RetryPolicy::once())).await?;
    /// assert_eq!(visit.failure().await.why.as_deref(), Some("max_attempts"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_policy(&self, set: impl Fn(&Client) -> SetPolicy) -> Result<Acted> {
        self.wait("set a policy", || {
            let set = set(&self.client());
            async move { set.await }
        })
        .await
    }

    /// Waits in virtual time until an instance tells the world something that is as wanted.
    pub async fn wait_for_status<T: DeserializeOwned>(
        &self,
        id: &str,
        is_wanted: impl Fn(&T) -> bool,
    ) -> Result<T> {
        self.wait("a status", || {
            let client = self.client();
            let is_wanted = &is_wanted;
            async move { client.wait_for_status(id, is_wanted).await }
        })
        .await
    }
}

/// JSON that is passed on as it is.
#[derive(Clone, Debug, Serialize, serde::Deserialize)]
#[serde(transparent)]
struct Raw(Box<serde_json::value::RawValue>);
