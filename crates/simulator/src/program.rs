//! Random workflows as data, the workflow that carries them out, and what their attempts will do.
//!
//! A program says how its attempts behave ([`Try`]); no code of an activity runs here, the world
//! acts it out.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use resurgam_core::event::ParentClose;
use resurgam_core::retry::{
    Backoff, CapOrder, ClockFrom, DeadlineRule, Exhausted, Jitter, LostWorker, Match, RetryPolicy,
    Rule, ServerDelay, ServerDelayMode, Timeouts, Verdict,
};
use resurgam_core::{Failure, Kind, Payload};
use resurgam_sdk::{
    Activity, ActivityContext, ActivityDefinition, PendingTurn, Registry, TurnThread, Workflow,
    WorkflowContext, WorkflowDefinition,
};
use serde::{Deserialize, Serialize};

use crate::dependencies::key_of;
use crate::random::Random;

/// The queue of calls that not every node serves.
pub(crate) const OTHER_QUEUE: &str = "other";

/// The name of the activity of all calls.
pub(crate) const WORK: &str = "work";

/// The number of an attempt that none has: an operator completed the call.
pub(crate) const BY_HAND: u32 = 1_000_000;

/// The number of an attempt that none has: the call fell back to a value.
pub(crate) const FALLBACK: u32 = 2_000_000;

/// What an instance does. Times are in milliseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Program {
    /// What each of its runs does.
    pub(crate) body: Stmt,
    /// How many runs follow this one.
    pub(crate) again: u32,
}

/// Something that a workflow does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Stmt {
    /// Calls an activity.
    Call(Box<Call>),
    /// Sleeps.
    Sleep(u64),
    /// Waits for a signal.
    Signal(String),
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
    /// In an instance of its own, and what becomes of that when this one is over first.
    Child(Box<Stmt>, ParentClose),
    /// In an instance of its own that nobody waits for.
    Detached(Box<Stmt>),
    /// Tells the world where it is.
    Status(u32),
    /// The workflow fails by itself.
    Fail,
}

/// An activity call, and what its attempts will do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Call {
    /// Tells it from others of its program.
    pub(crate) id: u32,
    /// What each attempt does; the last one is repeated.
    pub(crate) tries: Vec<Try>,
    /// When it is tried again.
    pub(crate) policy: RetryPolicy,
    /// Whether it goes to the queue that not every node serves.
    pub(crate) elsewhere: bool,
    /// The dependency that it goes to, whose gate it is behind.
    #[serde(default)]
    pub(crate) dependency: Option<usize>,
    /// What undoes it.
    pub(crate) undo: Option<Box<Call>>,
}

/// What an attempt does.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Try {
    /// How long it takes.
    pub(crate) takes: u64,
    /// How it ends.
    pub(crate) ends: Ends,
    /// How often it reports, if it does.
    pub(crate) beats: Option<u64>,
    /// Whether it goes on when it is told to end.
    pub(crate) deaf: bool,
}

/// How an attempt ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Ends {
    /// With its result.
    Well,
    /// With its result, written in a transaction of its own.
    InTransaction,
    /// With a failure of this type.
    Fails(u8),
    /// With a failure that nobody is to try again.
    Terminally,
    /// With a panic.
    Panics,
    /// With a failure that says when to try again.
    RetryAfter(u64),
    /// It wants to be tried later, which is no failure.
    Snoozes(u64),
}

impl Call {
    /// What the attempt of this number does.
    pub(crate) fn attempt(&self, number: u32) -> Try {
        let place = (number.max(1) as usize - 1).min(self.tries.len() - 1);
        self.tries[place]
    }
}

impl Workflow for Program {
    const NAME: &'static str = "program";
    const VERSION: u32 = 1;
    type Output = Vec<u32>;

    async fn run(self, ctx: WorkflowContext) -> Result<Vec<u32>, Failure> {
        let done = carry_out(ctx.clone(), self.body.clone()).await?;
        match self.again {
            0 => Ok(done),
            left => ctx.continue_as_new(Program { body: self.body, again: left - 1 }),
        }
    }
}

/// A program by other code: a run that began with it needs a node that knows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
struct NewProgram(Program);

impl Workflow for NewProgram {
    const NAME: &'static str = Program::NAME;
    const VERSION: u32 = 2;
    type Output = Vec<u32>;

    async fn run(self, ctx: WorkflowContext) -> Result<Vec<u32>, Failure> {
        ctx.version("status-first", 1);
        ctx.set_status(&0);
        let Program { body, again } = self.0;
        let done = carry_out(ctx.clone(), body.clone()).await?;
        match again {
            0 => Ok(done),
            left => ctx.continue_as_new(NewProgram(Program { body, again: left - 1 })),
        }
    }
}

/// The activity of all calls. The world acts out what its attempts do.
#[derive(Serialize, Deserialize)]
struct Work {
    call: Call,
}

impl Activity for Work {
    const NAME: &'static str = WORK;
    type Output = (u32, u32);

    async fn run(self, _: ActivityContext) -> Result<(u32, u32), Failure> {
        Err(Failure::terminal("the world acts attempts out"))
    }
}

/// The argument of a call, as the world reads it.
pub(crate) fn call_of(input: &resurgam_core::Payload) -> Option<Call> {
    input.decode::<Work>().ok().map(|work| work.call)
}

/// Where turns are taken that are late; the world takes them itself.
#[derive(Debug)]
struct OtherThread;

impl TurnThread for OtherThread {
    fn take(&self, turn: PendingTurn) {
        turn.take();
    }
}

/// What a process knows: the old code, or the old and the new. Attempts may outlive it.
pub(crate) fn registry(is_new: bool, turns_elsewhere: bool, outlives: bool) -> Registry {
    let taken = |definition: WorkflowDefinition| match turns_elsewhere {
        true => definition.taking_turns_on(Arc::new(OtherThread)),
        false => definition,
    };
    let mut registry = Registry::default();
    let mut work = ActivityDefinition::of::<Work>();
    work.outlives = outlives;
    let mut added = registry.add_activity_definition(work, &[]);
    let old = taken(WorkflowDefinition::of::<Program>());
    added = added.and_then(|()| registry.add_workflow_definition(old));
    added = added.and_then(|()| resurgam_worker::submit::register(&mut registry));
    if is_new {
        let new = taken(WorkflowDefinition::of::<NewProgram>());
        added = added.and_then(|()| registry.add_workflow_definition(new));
    }
    debug_assert!(added.is_ok(), "{added:?}");
    registry
}

type Doing = Pin<Box<dyn Future<Output = Result<Vec<u32>, Failure>> + Send>>;

fn carry_out(ctx: WorkflowContext, stmt: Stmt) -> Doing {
    Box::pin(async move {
        match stmt {
            Stmt::Call(call) => make(&ctx, *call).await.map(|(id, _)| vec![id]),
            Stmt::Sleep(time) => {
                ctx.sleep(Duration::from_millis(time)).await?;
                Ok(Vec::new())
            }
            Stmt::Signal(name) => {
                let number: u32 = ctx.signal(&name).await?;
                Ok(vec![number])
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
                    Err(elapsed) => Err(Failure::terminal(elapsed.to_string())),
                }
            }
            Stmt::Child(stmt, close) => {
                let child = Program { body: *stmt, again: 0 };
                ctx.child(child).parent_close(close).await
            }
            Stmt::Detached(stmt) => {
                let id = format!("detached-{}", ctx.uuid());
                ctx.start_detached(id, Program { body: *stmt, again: 0 })?;
                Ok(Vec::new())
            }
            Stmt::Status(number) => {
                ctx.set_status(&number);
                Ok(Vec::new())
            }
            Stmt::Fail => Err(Failure::of_type("Own", "by itself")),
        }
    })
}

async fn make(ctx: &WorkflowContext, call: Call) -> Result<(u32, u32), Failure> {
    let (policy, elsewhere, undo) = (call.policy.clone(), call.elsewhere, call.undo.clone());
    let dependency = call.dependency;
    let mut asked = ctx.call(Work { call }).retry(policy);
    if let Some(dependency) = dependency {
        asked = asked.gate(key_of(dependency));
    }
    if elsewhere {
        asked = asked.queue(OTHER_QUEUE);
    }
    if let Some(undo) = undo {
        let policy = undo.policy.clone();
        asked = asked.compensate_with(move |_| Work { call: *undo }).compensation_retry(policy);
    }
    asked.await
}

/// Rules that some policies have.
const RULES: &[Rule] =
    &[Rule::retry(Match::types(&["F1"])).max_attempts(2), Rule::fail(Match::kinds(&[Kind::Panic]))];

/// What the programs of a seed are like. What is rare in most seeds is common in some.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taste {
    /// One in so many policies has timeouts.
    timeouts: u64,
    /// One in so many attempts goes on when it is told to end.
    deaf: u64,
    /// One in so many calls can be undone.
    undone: u64,
    /// Times have at most so many digits, in milliseconds.
    digits: u64,
    /// How many dependencies there are that calls go to.
    dependencies: usize,
}

impl Taste {
    /// What a seed decides.
    pub(crate) fn new(random: &mut Random) -> Self {
        let mut rare_or_not = |rare| if random.one_in(3) { 1 } else { rare };
        let (timeouts, deaf, undone) = (rare_or_not(4), rare_or_not(4) * 2, rare_or_not(4));
        Taste { timeouts, deaf, undone, digits: random.between(3, 5), dependencies: 0 }
    }

    /// So many dependencies are there that calls go to.
    pub(crate) fn with_dependencies(self, dependencies: usize) -> Self {
        Taste { dependencies, ..self }
    }
}

/// Makes random programs.
pub(crate) struct Maker {
    taste: Taste,
    random: Random,
    next_id: u32,
    signals: Vec<String>,
}

impl Maker {
    /// Everything follows from the seed.
    pub(crate) fn new(taste: Taste, random: Random) -> Self {
        Maker { taste, random, next_id: 0, signals: Vec::new() }
    }

    /// A program, and the signals that it may wait for.
    pub(crate) fn program(mut self) -> (Program, Vec<String>) {
        let depth = self.random.between(0, 3) as u32;
        let body = self.stmt(depth);
        let again = if self.random.one_in(6) { self.random.between(1, 3) as u32 } else { 0 };
        (Program { body, again }, self.signals)
    }

    /// A program that does one thing, and the signals that it may wait for.
    pub(crate) fn small(mut self) -> (Program, Vec<String>) {
        (Program { body: self.stmt(0), again: 0 }, self.signals)
    }

    fn stmt(&mut self, depth: u32) -> Stmt {
        let deeper = depth.saturating_sub(1);
        match self.random.below(if depth == 0 { 8 } else { 18 }) {
            0..=4 => Stmt::Call(Box::new(self.call(true))),
            5 => Stmt::Sleep(self.time()),
            6 => self.signal(),
            7 => Stmt::Status(self.random.below(100) as u32),
            8..=11 => Stmt::Seq(self.several(deeper)),
            12 => Stmt::All(self.several(deeper)),
            13 => Stmt::Race(self.several(deeper)),
            14 => Stmt::Within(self.time(), Box::new(self.stmt(deeper))),
            15 => Stmt::Catch(Box::new(self.stmt(deeper))),
            16 if self.random.one_in(3) => Stmt::Detached(Box::new(self.stmt(deeper))),
            16 => {
                let close = [ParentClose::Terminate, ParentClose::Cancel, ParentClose::Abandon];
                let close = self.random.pick(&close).copied().unwrap_or(ParentClose::Cancel);
                Stmt::Child(Box::new(self.stmt(deeper)), close)
            }
            _ if self.random.one_in(3) => Stmt::Fail,
            _ => Stmt::Seq(self.several(deeper)),
        }
    }

    fn several(&mut self, depth: u32) -> Vec<Stmt> {
        (0..self.random.between(1, 3)).map(|_| self.stmt(depth)).collect()
    }

    fn signal(&mut self) -> Stmt {
        let name = ["go", "stop"][self.random.below(2) as usize].to_string();
        self.signals.push(name.clone());
        Stmt::Signal(name)
    }

    fn call(&mut self, may_be_undone: bool) -> Call {
        self.next_id += 1;
        let id = self.next_id;
        let is_undone = may_be_undone && self.random.one_in(self.taste.undone);
        let mut tries: Vec<Try> = (0..self.random.below(4)).map(|_| self.one_try()).collect();
        tries.push(self.last_try());
        // What undoes something has the gate of its activity.
        let dependency = may_be_undone.then(|| self.dependency()).flatten();
        if dependency.is_some() {
            // Most of what fails does because the dependency is out.
            let random = &mut self.random;
            tries.iter_mut().filter(|_| !random.one_in(4)).for_each(|it| it.ends = Ends::Well);
        }
        Call {
            id,
            tries,
            policy: match may_be_undone {
                true => self.policy(),
                false => self.policy_of_undo(),
            },
            elsewhere: self.random.one_in(6),
            dependency,
            undo: is_undone.then(|| Box::new(self.call(false))),
        }
    }

    /// Most calls go to a dependency where there are any.
    fn dependency(&mut self) -> Option<usize> {
        let count = self.taste.dependencies as u64;
        let goes = count > 0 && !self.random.one_in(4);
        goes.then(|| self.random.below(count) as usize)
    }

    fn one_try(&mut self) -> Try {
        let ends = match self.random.below(14) {
            0..=4 => Ends::Well,
            5 => Ends::InTransaction,
            6..=9 => Ends::Fails(self.random.below(3) as u8),
            10 => Ends::Terminally,
            11 => Ends::Panics,
            12 => Ends::RetryAfter(self.time()),
            _ => Ends::Snoozes(self.time()),
        };
        let beats = self.random.one_in(4).then(|| self.random.between(20, 5_000));
        Try { takes: self.time(), ends, beats, deaf: self.random.one_in(self.taste.deaf) }
    }

    /// Nothing is put off for ever.
    fn last_try(&mut self) -> Try {
        let mut last = self.one_try();
        if matches!(last.ends, Ends::Snoozes(_)) {
            last.ends = Ends::Well;
        }
        last
    }

    /// A policy for what undoes something, which nothing can undo.
    fn policy_of_undo(&mut self) -> RetryPolicy {
        let policy = self.policy();
        match policy.on_exhausted {
            Exhausted::Compensate => policy.on_exhausted(Exhausted::Fail),
            _ => policy,
        }
    }

    /// A policy that makes sense.
    pub(crate) fn policy(&mut self) -> RetryPolicy {
        loop {
            let policy = self.any_policy();
            if policy.check().is_ok() {
                return policy;
            }
        }
    }

    /// A policy from the whole type. No call takes longer than some hours.
    fn any_policy(&mut self) -> RetryPolicy {
        let initial = Duration::from_millis(self.time());
        let backoff = match self.random.below(5) {
            0 => Backoff::None,
            1 => Backoff::Fixed { delay: initial },
            2 => Backoff::exponential(initial),
            3 => Backoff::Linear { initial, increment: Some(initial) },
            _ => Backoff::Fibonacci { initial },
        };
        let jitters = [Jitter::None, Jitter::Full, Jitter::Equal, Jitter::Decorrelated];
        let jitter = self.random.pick(&jitters).cloned().unwrap_or(Jitter::None);
        let mut policy = RetryPolicy::with_backoff(backoff)
            .max_delay(Duration::from_secs(self.random.between(1, 120)))
            .max_attempts(self.random.between(1, 6) as u32)
            .jitter(jitter);
        if self.random.one_in(4) {
            policy = policy.cap(CapOrder::Truncate);
        }
        if self.random.one_in(5) {
            policy = policy.max_elapsed(Duration::from_secs(self.random.between(1, 300)));
            if self.random.one_in(2) {
                policy = policy.deadline(DeadlineRule::LookAhead);
            }
            if self.random.one_in(2) {
                policy = policy.clock_from(ClockFrom::FirstScheduled);
            }
        }
        if self.random.one_in(self.taste.timeouts) {
            policy = policy.timeouts(self.timeouts());
        }
        if self.random.one_in(5) {
            policy = policy.never_for(&["F0"]);
        }
        if self.random.one_in(5) {
            policy = policy.rules(RULES);
        }
        if self.random.one_in(8) {
            policy = policy.otherwise(Verdict::Fail);
        }
        if self.random.one_in(4) {
            let max_delay = Duration::from_secs(5);
            let max = self.random.between(1, 5) as u32;
            policy = policy.lost_worker(LostWorker { max, initial: max_delay / 5, max_delay });
        }
        if self.random.one_in(4) {
            let max = Duration::from_secs(self.random.between(1, 60));
            policy =
                policy.server_delay(ServerDelay { mode: ServerDelayMode::Exact, max, jitter: 0.0 });
        }
        if self.random.one_in(4) {
            policy = policy.on_exhausted(self.exhausted());
        }
        policy
    }

    fn exhausted(&mut self) -> Exhausted {
        match self.random.below(6) {
            0 => Exhausted::Compensate,
            1 => {
                let value = Payload::encode(&(self.next_id, FALLBACK));
                let value = value.ok().and_then(|value| value.decode().ok());
                Exhausted::FallbackValue(value.unwrap_or_default())
            }
            2 => Exhausted::Pause { wait: None },
            3 | 4 => Exhausted::DeadLetter,
            _ => Exhausted::Pause { wait: Some(Duration::from_millis(self.time())) },
        }
    }

    fn timeouts(&mut self) -> Timeouts {
        let attempt = Duration::from_millis(self.time().max(10));
        let attempt = self.random.one_in(2).then_some(attempt);
        let mut some = |shortest: u64, longest: u64| {
            let time = Duration::from_millis(self.random.between(shortest, longest));
            self.random.one_in(2).then_some(time)
        };
        Timeouts {
            attempt,
            heartbeat: some(100, 10_000),
            queue: some(5_000, 60_000),
            total: some(1_000, 200_000),
        }
    }

    /// From a millisecond to half a minute at most, each magnitude as often as the others.
    fn time(&mut self) -> u64 {
        let magnitude = 10_u64.pow(self.random.below(self.taste.digits) as u32);
        self.random.between(magnitude, magnitude * 3)
    }
}
