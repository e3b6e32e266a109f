//! The world: processes, their database, what lies between them, and users; everything that happens
//! follows from the seed.
//!
//! One event happens after another (`timeline.rs`). What concerns a process is put into its inbox;
//! soon after, the process takes a turn: its node is told everything that arrived, and what it
//! wants is carried out here, as the driver of the engine would.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use resurgam_core::{EventKind, Failure, Kind, Payload, Timestamp, Uid};
use resurgam_store::model::Sharing;
use resurgam_store::outage::OutageLog;
use resurgam_store::rows::Message as StoredMessage;
use resurgam_store::{AttemptTransaction, Commit, Error, Own, Tables};
use resurgam_worker::node::{
    At, AwayTurn, Input, Output, Stamp, Transaction, TransactionRequest, now_due, result_id,
};
use resurgam_worker::{Busy, Pace, Retention};

use crate::attempts::Moment;
use crate::database::{Database, News};
use crate::dependencies::Dependency;
use crate::faults::{Counts, Fault};
use crate::host::{Arrived, Done, Host, HostClock, Role};
use crate::keepers::Keeper;
use crate::network::Sending;
use crate::operators::Operators;
use crate::plan::Plan;
use crate::program::Taste;
use crate::random::Random;
use crate::server::Server;
use crate::store::SimulatedStore;
use crate::timeline::Timeline;
use crate::trace::Trace;
use crate::users::{Answers, User};
use crate::wire::{Reply, Wire, WireClock};

/// When everything begins: the first of January 2026.
pub(crate) const BEGIN: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// When a run that has not ended never will. Programs take hours at most.
pub(crate) const PATIENCE: Duration = Duration::from_secs(12 * 3_600);

/// How often what waits for a signal gets one, when users want nothing more.
pub(crate) const NUDGE: Duration = Duration::from_secs(60);

/// How often the database is copied, for when it is set back.
const BACKUP: Duration = Duration::from_secs(45);

/// Everything that there is.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) random: Random,
    pub(crate) taste: Taste,
    pub(crate) timeline: Timeline<Event>,
    pub(crate) database: Database,
    pub(crate) hosts: Vec<Place>,
    pub(crate) counts: Counts,
    pub(crate) trace: Trace,
    pub(crate) inputs: u64,
    pub(crate) users: Vec<User>,
    pub(crate) answers: Answers,
    /// Those who keep schedules.
    pub(crate) keepers: Vec<Keeper>,
    pub(crate) operators: Operators,
    /// What some calls go to.
    pub(crate) dependencies: Vec<Dependency>,
    /// Who waits for the end of which instance, in which process, by the number of the question.
    pub(crate) waiting: BTreeMap<u64, (u64, Uid)>,
    /// How often somebody has asked how an instance ends.
    pub(crate) waits: u64,
    /// How often the database was set back.
    pub(crate) set_backs: u64,
    /// Since when nothing is left to be done.
    pub(crate) at_rest_since: Option<Duration>,
    lives: u64,
    /// Changes when all connections to the database break.
    pub(crate) session: u64,
    pub(crate) is_up: bool,
    /// Rises when a standby takes over, and when the database is set back.
    pub(crate) timeline_of_database: u32,
    /// The timeline of a primary of before that is there again.
    pub(crate) old_primary: Option<u32>,
    /// How far the clock of the database is ahead, in milliseconds.
    pub(crate) ahead: i64,
    /// How many settings of clocks not everybody may have heard of.
    pub(crate) clocks_in_doubt: u32,
    pub(crate) backup: Option<Box<Database>>,
    pub(crate) is_over: bool,
    /// How many processes were restarted when nothing went wrong any more.
    pub(crate) restarts: u32,
    /// When the last of them was.
    pub(crate) restarted_at: Option<Duration>,
}

/// A place for a process, and the process if there is one.
pub(crate) struct Place {
    pub(crate) role: Role,
    pub(crate) host: Option<Host>,
}

/// Something that is going to happen.
pub(crate) enum Event {
    /// A request reaches the database.
    Arrive(Box<Sending>),
    /// Something happens to a process, if it is still the one that it was meant for.
    Process { host: usize, life: u64, what: Happening },
    /// A user asks for something.
    User(usize),
    /// A user has waited long enough.
    Patience { user: usize, asked: u64 },
    /// Somebody who keeps a schedule asks for something.
    Keeper(usize),
    /// Somebody who keeps a schedule has waited long enough.
    KeeperPatience { keeper: usize, asked: u64 },
    /// An operator does something to a call or to an instance.
    Operator,
    /// An operator does something to a gate.
    GateOperator,
    /// A dependency is out for a while.
    Outage(usize),
    /// An operator has waited long enough for the answer to what they asked for.
    OperatorPatience(u64),
    /// Something goes wrong.
    Fault(Fault),
    /// What went wrong is over.
    Mend(Mend),
    /// The primary is out of reach for a while.
    OutOfReach,
    /// A process is started.
    Start(usize),
    /// The database is copied.
    Backup,
    /// Nothing goes wrong any more.
    Calm,
    /// What waits for a signal gets one.
    Nudge,
}

/// Something that happens to a process.
pub(crate) enum Happening {
    /// What it awaits is answered; without a reply nobody knows what became of it. An answer of a
    /// session that is over is lost.
    Answer { number: u64, reply: Option<Reply>, session: Option<u64> },
    /// A task of it begins.
    Begin(u64),
    /// It looks at what arrived.
    Turn,
    /// It looks at the time.
    Wake,
    /// It hears that others have done something.
    Hint(News),
    /// Something of an attempt.
    Attempt { token: u64, moment: Moment },
    /// An attempt asks for its transaction again.
    AskAgain(TransactionRequest),
    /// A turn is taken that was handed to another thread.
    TurnElsewhere(Box<AwayTurn>, Stamp),
}

/// What goes well again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mend {
    Database,
    OldPrimary,
    Disk,
    Clock,
    /// A process that came for a while leaves.
    Leave(usize, u64),
}

impl World {
    /// The world of a plan, before anything has happened.
    pub(crate) fn new(plan: Plan, trace: Trace) -> Self {
        let mut random = Random::new(plan.seed ^ 0x5EED);
        let taste = Taste::new(&mut random).with_dependencies(plan.gates.len());
        let users = (0..plan.instances)
            .map(|number| User::new(number, taste, &mut random, plan.trouble))
            .collect();
        let mut world = World {
            database: Database::new(plan.sharing, plan.stays, BEGIN),
            keepers: (0..plan.schedules)
                .map(|number| Keeper::new(number, taste, &mut random, plan.trouble))
                .collect(),
            operators: Operators::default(),
            dependencies: plan.gates.iter().map(Dependency::new).collect(),
            waiting: BTreeMap::new(),
            waits: 0,
            set_backs: 0,
            at_rest_since: None,
            timeline: Timeline::new(),
            hosts: Vec::new(),
            counts: Counts::default(),
            trace,
            inputs: 0,
            users,
            answers: Answers::default(),
            lives: 0,
            session: 0,
            is_up: true,
            timeline_of_database: 1,
            old_primary: None,
            ahead: 0,
            clocks_in_doubt: 0,
            backup: None,
            is_over: false,
            restarts: 0,
            restarted_at: None,
            taste,
            random,
            plan,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        for number in 0..self.plan.nodes + self.plan.clients {
            let works = number < self.plan.nodes;
            let role = Role { works, ..self.new_role() };
            self.hosts.push(Place { role, host: None });
            let delay = self.random.delay(Duration::ZERO, Duration::from_secs(2));
            self.timeline.after(delay, Event::Start(number));
        }
        for number in 0..self.users.len() {
            if !self.plan.without.contains(&number) {
                self.timeline.after(self.users[number].begins, Event::User(number));
            }
        }
        for number in 0..self.keepers.len() {
            self.timeline.after(self.keepers[number].begins, Event::Keeper(number));
        }
        if self.plan.operators.is_some() {
            self.timeline.after(Duration::from_secs(1), Event::Operator);
        }
        self.plan_dependencies();
        if self.plan.nodes == 1 && !self.goes_wrong(Fault::Join) {
            self.database.promises.one_process_decides();
        }
        let faults: Vec<Fault> =
            self.plan.faults.iter().copied().filter(|fault| !fault.is_of_messages()).collect();
        for fault in faults {
            self.plan_fault(fault);
        }
        self.timeline.after(BACKUP, Event::Backup);
        self.timeline.after(self.plan.trouble, Event::Calm);
    }

    pub(crate) fn new_role(&mut self) -> Role {
        Role {
            is_new: !self.goes_wrong(Fault::OtherCode) || self.random.one_in(2),
            serves_others: !self.goes_wrong(Fault::OtherQueues) || self.random.one_in(2),
            slots: if self.random.one_in(4) { 2 } else { 100 },
            hot_runs: if self.random.one_in(3) { 1 } else { 1_000 },
            horizon: match self.random.one_in(2) {
                true => Duration::from_secs(self.random.between(1, 5)),
                false => Duration::from_secs(60),
            },
            works: true,
            turns_elsewhere: self.random.one_in(3),
            outlives: self.plan.seed % 4 == 3,
            stays: self.plan.stays,
            gates: self.plan.gates.clone(),
        }
    }

    pub(crate) fn goes_wrong(&self, fault: Fault) -> bool {
        self.plan.faults.contains(&fault)
    }

    /// Lets everything happen. The error is a promise that was broken.
    pub(crate) fn run(&mut self) -> Result<(), crate::Violation> {
        while let Some(event) = self.timeline.next() {
            self.happens(event);
            if let Some(broken) = self.database.promises.broken() {
                return Err(broken.clone());
            }
            if self.is_over {
                break;
            }
        }
        self.database.now = self.database_time();
        self.check_waiting();
        self.database.at_the_end();
        self.database.promises.broken().cloned().map_or(Ok(()), Err)
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Arrive(request) => self.arrives(*request),
            Event::Process { host, life, what } => self.happens_to((host, life), what),
            Event::User(user) => self.user_asks(user),
            Event::Patience { user, asked } => {
                if self.users[user].asked(asked) {
                    self.user_asks(user);
                }
            }
            Event::Keeper(keeper) => self.keeper_asks(keeper),
            Event::KeeperPatience { keeper, asked } => {
                if self.keepers[keeper].asked == asked {
                    self.keeper_asks(keeper);
                }
            }
            Event::Operator => self.operator_acts(),
            Event::GateOperator => self.operator_acts_on_gate(),
            Event::Outage(number) => self.outage(number),
            Event::OperatorPatience(asked) => self.operator_asks(asked),
            Event::Fault(fault) => self.fault(fault),
            Event::Mend(mend) => self.mend(mend),
            Event::OutOfReach => self.out_of_reach(),
            Event::Start(host) => self.start(host),
            Event::Backup => {
                if self.goes_wrong(Fault::SetBack) && !self.is_calm() {
                    self.backup = Some(Box::new(self.database.clone()));
                    self.timeline.after(BACKUP, Event::Backup);
                }
            }
            Event::Calm => self.calm(),
            Event::Nudge => self.nudge(),
        }
    }

    /// Something happens to a process: now, when it goes on, or never, when it is not there.
    fn happens_to(&mut self, (host, life): (usize, u64), mut what: Happening) {
        if let Happening::Answer { reply, session, .. } = &mut what
            && session.take().is_some_and(|session| session != self.session)
        {
            *reply = None;
        }
        let now = self.timeline.now();
        let place = &mut self.hosts[host].host;
        let Some(process) = place.as_mut().filter(|process| process.life == life) else { return };
        if let Some(until) = process.paused_until.filter(|until| *until > now) {
            return self.timeline.after(until - now, Event::Process { host, life, what });
        }
        process.paused_until = None;
        match what {
            Happening::Answer { number, reply, .. } => self.answered(host, number, reply),
            Happening::Begin(task) => self.poll(host, task),
            Happening::Turn => self.turn(host),
            Happening::Wake => self.wakes(host),
            Happening::Hint(news) => self.hears(host, news),
            Happening::Attempt { token, moment } => self.attempt(host, token, moment),
            Happening::AskAgain(ask) => self.arrived(host, Arrived::input(Input::Transact(ask))),
            Happening::TurnElsewhere(turn, stamp) => {
                let turned = Input::Turned(Box::new(turn.take()));
                self.arrived(host, Arrived::Input(Box::new(turned), Some(stamp)));
            }
        }
    }

    /// Something is going to happen to a process, unless it ends before.
    pub(crate) fn plan_for(&mut self, host: usize, delay: Duration, what: Happening) {
        if let Some(life) = self.hosts[host].host.as_ref().map(|process| process.life) {
            self.timeline.after(delay, Event::Process { host, life, what });
        }
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.timeline.now() >= self.plan.trouble
    }

    // Processes.

    /// A process is started in its place.
    pub(crate) fn start(&mut self, number: usize) {
        if self.hosts[number].host.is_some() {
            return;
        }
        self.lives += 1;
        let wire = Wire::new(self.plan.sharing);
        let (life, seed) = (self.lives, self.random.number());
        let server = (self.plan.sharing == Sharing::ManyNodes)
            .then(|| Server::new(format!("writer-{life}")));
        let role = self.hosts[number].role.clone();
        let store = SimulatedStore::new(wire.clone(), server, role.works);
        let now = self.database_time();
        self.trace.line(self.timeline.now(), || format!("process {number} starts: {role:?}"));
        let mut host = Host::new((life, seed), &role, wire, store, now);
        if self.goes_wrong(Fault::ClockDrift) && !self.is_calm() {
            self.counts.add(Fault::ClockDrift);
            let drift = self.random.below(400) as i64 - 200;
            host.clock = HostClock { drift, since: self.timeline.now(), ..HostClock::default() };
        }
        self.hosts[number].host = Some(host);
        self.call(number);
        self.leaves_later(number, life);
    }

    /// The time by the clock of the database.
    pub(crate) fn database_time(&self) -> Timestamp {
        let millis = self.timeline.now().as_millis() as i64 + self.ahead;
        Timestamp::from_millis(BEGIN.as_millis() + millis)
    }

    /// The time in a process.
    pub(crate) fn at(&self, host: &Host) -> At {
        let world = self.timeline.now();
        let (now, may_begin) = match &host.store.server {
            Some(server) => {
                let heard = server.time(world, host.clock.drift);
                (heard.unwrap_or_else(|| self.database_time()), server.may_begin(world))
            }
            None => {
                let mut clock = host.clock;
                clock.ahead += self.ahead;
                (clock.now(BEGIN, world), true)
            }
        };
        At { now, elapsed: world, may_begin }
    }

    /// Has a process look at what arrived, soon.
    pub(crate) fn call(&mut self, number: usize) {
        let Some(host) = self.hosts[number].host.as_mut() else { return };
        if !std::mem::replace(&mut host.is_called, true) {
            let delay = self.random.delay(Duration::ZERO, Duration::from_micros(200));
            self.plan_for(number, delay, Happening::Turn);
        }
    }

    pub(crate) fn arrived(&mut self, number: usize, arrived: Arrived) {
        if let Some(host) = self.hosts[number].host.as_mut() {
            host.inbox.push_back(arrived);
            self.call(number);
        }
    }

    fn wakes(&mut self, number: usize) {
        if let Some(host) = self.hosts[number].host.as_mut() {
            host.wakes_at = None;
            self.call(number);
        }
    }

    fn hears(&mut self, number: usize, news: News) {
        let Some(host) = self.hosts[number].host.as_mut() else { return };
        if news.committed {
            host.store.tell();
            self.call(number);
        }
        if news.moves {
            self.end_nap(number);
        }
    }

    /// A process takes a turn.
    fn turn(&mut self, number: usize) {
        let Some(mut host) = self.hosts[number].host.take() else { return };
        host.is_called = false;
        let at = self.at(&host);
        host.hear_of_others(at);
        while let Some(arrived) = host.inbox.pop_front() {
            self.inputs += 1;
            let now = self.timeline.now();
            self.trace.line(now, || format!("process {number} hears {arrived:?}"));
            match arrived {
                Arrived::Input(input, stamp) => host.node.handle(at, *input, stamp),
                Arrived::Written { lane, answer } => {
                    if let Some(durable) = host.node.batch_answered(at, lane, answer) {
                        host.node.effects(durable);
                    }
                }
            }
        }
        host.node.tick(at);
        let is_done = host.node.is_done();
        let outputs = host.node.outputs();
        let next = host.node.next_due();
        let unaware = host.is_unaware;
        let is_idle = outputs.is_empty();
        self.hosts[number].host = Some(host);
        for output in outputs {
            self.carry_out(number, output);
        }
        self.told(unaware);
        if is_done {
            return self.ended(number);
        }
        if !is_idle {
            // What was carried out at once may have brought more.
            self.call(number);
        }
        self.wake_at(number, at.now, next);
    }

    /// A process looks at the time when its clock says so.
    fn wake_at(&mut self, number: usize, now: Timestamp, next: Option<Timestamp>) {
        let Some(host) = self.hosts[number].host.as_mut() else { return };
        let Some(next) = next else { return };
        let delay = next.since(now).max(Duration::from_millis(1)).min(Duration::from_secs(60));
        let at = self.timeline.now() + delay;
        if host.wakes_at.is_none_or(|other| at < other) {
            host.wakes_at = Some(at);
            self.plan_for(number, delay, Happening::Wake);
        }
    }

    /// A process ends by itself, after it was told to.
    fn ended(&mut self, number: usize) {
        self.trace.line(self.timeline.now(), || format!("process {number} has stopped"));
        if let Some(host) = self.hosts[number].host.take() {
            let name = host.node.name().to_string();
            self.leave(&name);
        }
        let delay = self.random.delay(Duration::from_millis(50), Duration::from_secs(10));
        self.timeline.after(delay, Event::Start(number));
    }

    /// A node is gone, and everybody can see that: its lock is free, or it has said so.
    pub(crate) fn leave(&mut self, name: &str) {
        self.database.leave(name);
        self.spread_news(None);
    }

    // What a process wants done.

    fn carry_out(&mut self, number: usize, output: Output) {
        let now = self.timeline.now();
        self.trace.line(now, || format!("process {number} wants {output:?}"));
        let Some(host) = self.hosts[number].host.as_mut() else { return };
        match output {
            Output::AskStore { request, after, stamp } => {
                let store = host.reader();
                let read = async move {
                    let log = OutageLog::default();
                    match request.ask(&*store, &log).await {
                        Some(input) => Done::Arrived(Arrived::Input(Box::new(input), stamp)),
                        None => Done::Nothing,
                    }
                };
                self.spawn(number, after, read);
            }
            Output::Commit { lane, batch, .. } => {
                let store = host.store.clone();
                let given_back = host.given_back.clone();
                let tenure = given_back.load(Ordering::Relaxed);
                let commit = async move {
                    // As the driver does: it may have waited.
                    let answer = match given_back.load(Ordering::Relaxed) == tenure {
                        true => store.commit(batch.steps).await,
                        false => Err(Error::fenced("this node has stepped down")),
                    };
                    Done::Arrived(Arrived::Written { lane, answer })
                };
                self.spawn(number, batch.after, commit);
            }
            Output::TryOwn { node, after } => {
                let store = host.store.clone();
                let own = async move { Done::Role(store.try_own(node).await) };
                self.spawn(number, after, own);
            }
            Output::Turn { turn, stamp } => {
                let delay = self.random.delay(Duration::ZERO, Duration::from_millis(50));
                self.plan_for(number, delay, Happening::TurnElsewhere(turn, stamp));
            }
            Output::StepDown => self.step_down(number),
            Output::StartAttempt(start) => self.start_attempt(number, &start),
            Output::OrderAttempt { token, order } => self.order_attempt(number, token, order),
            Output::InterruptAttempt { call, token } => {
                self.interrupt_attempt(number, call, token);
            }
            Output::Transact(transaction) => self.transact(number, *transaction),
            Output::RefuseTransaction { ask, failure } => {
                if let Some(token) = host.asks.remove(&ask) {
                    self.end_attempt(number, token, Err(failure));
                }
            }
            Output::TransactionRecorded { ask } => {
                // Code that waits for it hears that its attempt is over, and returns.
                if let Some(token) = host.asks.remove(&ask) {
                    let over = Failure::of_kind(Kind::Cancelled, "the attempt is over");
                    self.end_attempt(number, token, Err(over));
                }
            }
            Output::AskAgain { ask, after } => {
                self.plan_for(number, after, Happening::AskAgain(ask));
            }
            Output::Answer(answer) => self.answers.hand_over(answer),
            Output::Changed(_) | Output::AnythingChanged => {}
            Output::Sweep { retention, now } => self.sweep(number, retention, now),
        }
    }

    /// Begins something that waits for the database, after a while.
    pub(crate) fn spawn(
        &mut self,
        number: usize,
        after: Duration,
        task: impl Future<Output = Done> + Send + 'static,
    ) {
        let Some(host) = self.hosts[number].host.as_mut() else { return };
        let task = host.spawn(task);
        self.plan_task(number, after, task);
    }

    fn plan_task(&mut self, number: usize, after: Duration, task: u64) {
        match after {
            Duration::ZERO => self.poll(number, task),
            after => self.plan_for(number, after, Happening::Begin(task)),
        }
    }

    /// Deletes what is closed and old, as the driver does it.
    fn sweep(&mut self, number: usize, retention: Retention, now: Timestamp) {
        let Some(host) = self.hosts[number].host.as_mut() else { return };
        let (store, clock) = (host.reader(), WireClock::new(host.wire.clone(), now));
        let task = host.spawn(async move {
            let mut pace = Pace::new(&clock, Busy::default());
            let swept = resurgam_worker::sweep(&*store, &mut pace, retention, now).await;
            Done::Arrived(Arrived::input(Input::Swept(swept)))
        });
        host.sweep = Some(task);
        self.plan_task(number, Duration::ZERO, task);
    }

    /// Lets a task of a process get on.
    fn poll(&mut self, number: usize, task: u64) {
        let Some(host) = self.hosts[number].host.as_mut() else { return };
        host.wire.passed(self.timeline.now());
        let done = host.poll(task);
        let (life, sent) = (host.life, host.wire.sent());
        for (asked, _) in &sent {
            host.awaits(task, *asked);
        }
        for (asked, sent) in sent {
            self.send((number, life), asked, sent);
        }
        match done {
            Some(Done::Arrived(arrived)) => self.arrived(number, arrived),
            Some(Done::Role(answer)) => self.role(number, answer),
            Some(Done::Listed(found, look)) => self.listed(found, &look),
            Some(Done::Nothing) | None => {}
        }
        // A beat may have changed what the node should do.
        self.call(number);
    }

    pub(crate) fn answered(&mut self, number: usize, asked: u64, reply: Option<Reply>) {
        let Some(host) = self.hosts[number].host.as_mut() else { return };
        let Some(task) = host.awaited(asked) else { return };
        host.wire.answer(asked, reply);
        self.poll(number, task);
    }

    fn role(&mut self, number: usize, answer: resurgam_store::Result<resurgam_store::Owning>) {
        let is_taken = matches!(answer, Ok(resurgam_store::Owning::Taken(_)));
        self.arrived(number, Arrived::input(Host::role(answer)));
        let Some(host) = self.hosts[number].host.as_mut().filter(|_| is_taken) else { return };
        let (store, name) = (host.store.clone(), host.node.name().to_string());
        if store.server.is_some() {
            self.spawn(number, Duration::ZERO, async move {
                crate::server::live(&store, &name).await;
                Done::Nothing
            });
        }
    }

    fn step_down(&mut self, number: usize) {
        let Some(host) = self.hosts[number].host.as_mut() else { return };
        host.cut_all();
        host.is_unaware = false;
        host.given_back.fetch_add(1, Ordering::Relaxed);
        let store = host.store.clone();
        self.spawn(number, Duration::ZERO, async move {
            if let Some(server) = &store.server {
                server.leave(&store).await;
            }
            let _never_fails = store.disown().await;
            Done::Arrived(Arrived::input(Input::SteppedDown))
        });
    }

    fn transact(&mut self, number: usize, transaction: Transaction) {
        let Transaction { ask, completed } = transaction;
        let Some(host) = self.hosts[number].host.as_mut() else { return };
        let Some(attempt) = host.asks.get(&ask.ask).and_then(|token| host.attempts.get(token))
        else {
            return;
        };
        let result = Payload::encode(&(attempt.id, attempt.number));
        let run = ask.call.run;
        let id = result_id(run, ask.call.seq);
        let message = move |result| {
            let mut completed = completed.clone();
            completed.result = result;
            let event = EventKind::ActivityCompleted(completed);
            Ok(now_due(run.uid, id.clone(), StoredMessage::Result { run: run.run, event }))
        };
        let attempt = Arc::new(AttemptTransaction {
            call: ask.call,
            token: ask.token,
            work: Arc::new(result.unwrap_or_else(|_| Payload::null())),
            message: Box::new(message),
        });
        let store = host.store.clone();
        self.spawn(number, Duration::ZERO, async move {
            let answer = store.transact(attempt).await;
            Done::Arrived(Arrived::input(Input::Transacted { ask, answer }))
        });
    }
}
