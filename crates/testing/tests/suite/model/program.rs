//! Random workflows as data, and the workflow and activity that carry them out.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use resurgam::prelude::*;
use resurgam::retry::Jitter;
use serde::{Deserialize, Serialize};

/// A program: what a workflow does. Times are in milliseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Stmt {
    Call(Box<Call>),
    Sleep(u64),
    /// One after another, until one fails.
    Seq(Vec<Stmt>),
    /// All at once; the first failure in order.
    All(Vec<Stmt>),
    /// The first that is done; the others are dropped.
    Race(Vec<Stmt>),
    /// Failures are swallowed.
    Catch(Box<Stmt>),
    /// Not longer than this.
    Within(u64, Box<Stmt>),
    /// In an instance of its own.
    Child(Box<Stmt>),
    /// The workflow fails by itself.
    Fail,
}

/// An activity call with what its attempts will do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) id: u32,
    /// The last one is repeated.
    pub(crate) tries: Vec<Try>,
    pub(crate) max_attempts: u32,
    pub(crate) backoff: u64,
    pub(crate) timeout: Option<u64>,
    /// What undoes it.
    pub(crate) undo: Option<Box<Call>>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Try {
    pub(crate) takes: u64,
    pub(crate) outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    Ok,
    Fail,
    Terminal,
    Panic,
    Snooze(u64),
}

impl Call {
    pub(crate) fn attempt(&self, number: u32) -> Try {
        let place = (number as usize - 1).min(self.tries.len() - 1);
        self.tries[place]
    }

    fn policy(&self) -> RetryPolicy {
        RetryPolicy::fixed(Duration::from_millis(self.backoff))
            .max_delay(Duration::from_secs(86_400))
            .jitter(Jitter::None)
            .max_attempts(self.max_attempts)
    }
}

/// How often attempts of each call began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Begins(Arc<Mutex<BTreeMap<u32, u32>>>);

impl Begins {
    pub(crate) fn counts(&self) -> BTreeMap<u32, u32> {
        self.0.lock().unwrap().clone()
    }
}

#[activity]
pub(crate) async fn work(ctx: ActivityContext, call: Call) -> Result<u32, Failure> {
    *ctx.state::<Begins>().0.lock().unwrap().entry(call.id).or_default() += 1;
    let attempt = call.attempt(ctx.attempt());
    ctx.sleep(Duration::from_millis(attempt.takes)).await;
    let failure = Failure::new("as planned").with_type(format!("F{}", call.id));
    match attempt.outcome {
        Outcome::Ok => Ok(call.id),
        Outcome::Fail => Err(failure),
        Outcome::Terminal => Err(failure.into_terminal()),
        Outcome::Panic => std::panic::resume_unwind(Box::new("as planned")),
        Outcome::Snooze(time) => Err(Failure::snooze(Duration::from_millis(time))),
    }
}

#[workflow]
pub(crate) async fn script(ctx: WorkflowContext, program: Stmt) -> Result<Vec<u32>, Failure> {
    carry_out(ctx, program).await
}

type Doing = Pin<Box<dyn Future<Output = Result<Vec<u32>, Failure>> + Send>>;

fn carry_out(ctx: WorkflowContext, stmt: Stmt) -> Doing {
    Box::pin(async move {
        match stmt {
            Stmt::Call(call) => make(&ctx, *call).await.map(|id| vec![id]),
            Stmt::Sleep(time) => {
                ctx.sleep(Duration::from_millis(time)).await?;
                Ok(Vec::new())
            }
            Stmt::Seq(all) => {
                let mut done = Vec::new();
                for stmt in all {
                    done.extend(carry_out(ctx.clone(), stmt).await?);
                }
                Ok(done)
            }
            Stmt::All(all) => {
                let all = all.into_iter().map(|stmt| carry_out(ctx.clone(), stmt));
                Ok(ctx.join_all(all).await?.concat())
            }
            Stmt::Race(all) => {
                let all = all.into_iter().map(|stmt| carry_out(ctx.clone(), stmt));
                ctx.race(all).await.1
            }
            Stmt::Catch(stmt) => Ok(carry_out(ctx, *stmt).await.unwrap_or_default()),
            Stmt::Within(time, stmt) => {
                let inner = carry_out(ctx.clone(), *stmt);
                match ctx.timeout(Duration::from_millis(time), inner).await {
                    Ok(done) => done,
                    Err(elapsed) => {
                        Err(Failure::terminal(elapsed.to_string()).with_type("Elapsed"))
                    }
                }
            }
            Stmt::Child(stmt) => ctx.child(script(*stmt)).await,
            Stmt::Fail => Err(Failure::new("by itself").with_type("Own")),
        }
    })
}

async fn make(ctx: &WorkflowContext, call: Call) -> Result<u32, Failure> {
    let policy = call.policy();
    let (timeout, undo) = (call.timeout, call.undo.clone());
    let mut asked = ctx.call(work(call)).retry(policy);
    if let Some(timeout) = timeout {
        asked = asked.timeout(Duration::from_millis(timeout));
    }
    if let Some(undo) = undo {
        let policy = undo.policy();
        asked = asked.compensate_with(move |_| work(*undo)).compensation_retry(policy);
    }
    asked.await
}

/// Makes random programs.
pub(crate) struct Maker {
    pub(crate) random: fastrand::Rng,
    next_id: u32,
    /// Only what does not depend on how long things take.
    timeless: bool,
}

impl Maker {
    pub(crate) fn new(seed: u64, timeless: bool) -> Self {
        Maker { random: fastrand::Rng::with_seed(seed), next_id: 0, timeless }
    }

    pub(crate) fn program(&mut self, depth: u32) -> Stmt {
        let leaf = depth == 0;
        match self.random.u32(0..if leaf { 4 } else { 14 }) {
            0..=2 => Stmt::Call(Box::new(self.call(true))),
            3 => Stmt::Sleep(self.time()),
            4..=6 => Stmt::Seq(self.several(depth)),
            7 | 8 => Stmt::All(self.several(depth)),
            9 if !self.timeless => Stmt::Race(self.several(depth)),
            10 if !self.timeless => Stmt::Within(self.time(), Box::new(self.program(depth - 1))),
            11 => Stmt::Catch(Box::new(self.program(depth - 1))),
            12 => Stmt::Child(Box::new(self.program(depth - 1))),
            13 if self.random.u8(0..4) == 0 => Stmt::Fail,
            _ => Stmt::Seq(self.several(depth)),
        }
    }

    fn several(&mut self, depth: u32) -> Vec<Stmt> {
        (0..self.random.usize(1..4)).map(|_| self.program(depth - 1)).collect()
    }

    fn call(&mut self, may_be_undone: bool) -> Call {
        self.next_id += 1;
        let id = self.next_id;
        let undone = may_be_undone && self.random.u8(0..3) == 0;
        Call {
            id,
            tries: self.tries(),
            max_attempts: self.random.u32(1..4),
            backoff: self.time(),
            timeout: self.timeout().filter(|_| may_be_undone),
            undo: undone.then(|| Box::new(self.call(false))),
        }
    }

    fn timeout(&mut self) -> Option<u64> {
        (!self.timeless && self.random.u8(0..4) == 0).then(|| self.time())
    }

    /// When a crash may add attempts, every attempt of a call does the same.
    fn tries(&mut self) -> Vec<Try> {
        let count = if self.timeless { 1 } else { self.random.usize(1..4) };
        let mut tries: Vec<Try> = (0..count).map(|_| self.one_try()).collect();
        if let Some(Try { outcome: outcome @ Outcome::Snooze(_), .. }) = tries.last_mut() {
            *outcome = Outcome::Ok;
        }
        tries
    }

    fn one_try(&mut self) -> Try {
        let outcome = match self.random.u8(0..10) {
            0..=4 => Outcome::Ok,
            5 | 6 => Outcome::Fail,
            7 => Outcome::Terminal,
            8 => Outcome::Panic,
            _ => Outcome::Snooze(self.time()),
        };
        Try { takes: self.time(), outcome }
    }

    fn time(&mut self) -> u64 {
        self.random.u64(1..100_000)
    }
}
