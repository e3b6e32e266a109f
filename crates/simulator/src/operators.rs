//! Operators: they do something to calls that are open and to instances, ask again when nobody
//! answers, and in the end let go on whatever is paused. What they do to many at once, and to dead
//! letters, is in `bulk.rs`.

use std::collections::BTreeMap;
use std::time::Duration;

use resurgam_core::action::{Action, Reset, ResetTo};
use resurgam_core::retry::Timeouts;
use resurgam_core::{CallKey, EventKind, Failure, Payload, RunKey, Seq};
use resurgam_store::rows::{
    ActionRequest, InstanceFilter, InstanceRow, PolicyOverride, Status, TaskRow,
};
use resurgam_worker::node::{Input, Request};
use resurgam_worker::{Error, Result};

use crate::bulk::Order;
use crate::database::Database;
use crate::host::Arrived;
use crate::program::{BY_HAND, Maker, WORK};
use crate::promises::everything;
use crate::users::{Answer, Told};
use crate::world::{Event, World};

/// What operators want, and have not heard of yet.
#[derive(Debug, Default)]
pub(crate) struct Operators {
    asked: u64,
    wanted: BTreeMap<u64, Wanted>,
    orders: BTreeMap<u64, Order>,
}

impl Operators {
    /// A number that nothing else has that they want.
    pub(crate) fn next(&mut self) -> u64 {
        self.asked += 1;
        self.asked
    }
}

/// Something that is to be done to a call, or to a run.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// The call; of an action on a run, the place `Seq::RUN` in it.
    pub(crate) call: CallKey,
    /// What is to be done to it.
    pub(crate) request: ActionRequest,
}

impl World {
    /// An operator does something to some call that is open, or to some instance.
    pub(crate) fn operator_acts(&mut self) {
        let Some(longest) = self.plan.operators.filter(|_| !self.is_calm()) else { return };
        match self.random.below(17) {
            0..=5 => self.operator_acts_on_call(),
            6..=11 => self.operator_acts_on_run(),
            12..=13 => self.operator_runs_job(),
            14 => self.operator_sets_policy(),
            _ => self.operator_settles_letter(),
        }
        let lull = self.random.delay(Duration::from_millis(10), longest);
        self.timeline.after(lull, Event::Operator);
    }

    /// An operator sets a policy for all calls of the activity, or removes it.
    fn operator_sets_policy(&mut self) {
        let mut policy = Maker::new(self.taste, self.random.fork()).policy();
        // Timeouts stay those of the calls, and are refused.
        policy.timeouts = Timeouts::default();
        let is_set = policy.check().is_ok() && self.random.one_in(2);
        self.sets_policy(is_set.then(|| policy.to_stored()));
    }

    fn sets_policy(&mut self, policy: Option<String>) {
        self.counts.note(match policy {
            Some(_) => "policy of an activity set",
            None => "policy of an activity removed",
        });
        let (activity, by, at) = (WORK.to_string(), "ana".to_string(), self.database_time());
        let row = PolicyOverride { activity, policy, by, reason: None, at, revision: 0 };
        self.orders(Order::Policy(row));
    }

    fn operator_acts_on_call(&mut self) {
        let tasks = self.open_tasks();
        if let Some(task) = self.random.pick(&tasks).cloned() {
            let action = self.some_action(&task);
            self.wants(task.call, action);
        }
    }

    /// An operator does something to an instance, and now and then somebody wants it to end at the
    /// same time.
    fn operator_acts_on_run(&mut self) {
        let instances = self.database.model.list(&everything());
        // Most of them are closed, and those that are open are of more interest.
        let open: Vec<InstanceRow> =
            instances.iter().filter(|row| !row.status.is_closed()).cloned().collect();
        let some = if self.random.one_in(4) || open.is_empty() { &instances } else { &open };
        let Some(row) = self.random.pick(some).cloned() else { return };
        let action = self.some_action_on_run(&row);
        let run = RunKey { uid: row.uid, run: row.run };
        self.wants(run.call(Seq::RUN), action);
        if self.random.one_in(6) {
            self.somebody_ends(run);
        }
    }

    /// Everything is to come to its end: what is paused goes on, or is ended by hand.
    pub(crate) fn operators_let_go_on(&mut self) {
        self.gates_go_on();
        if self.database.model.policy_overrides().iter().any(|row| row.policy.is_some()) {
            self.sets_policy(None);
        }
        for row in self.open_instances() {
            let run = RunKey { uid: row.uid, run: row.run };
            match row.status {
                Status::Paused if self.random.one_in(4) => self.somebody_ends(run),
                Status::Paused => self.wants(run.call(Seq::RUN), Action::ResumeRun),
                _ => {}
            }
        }
        for task in self.open_tasks() {
            // What was paused with its run goes on with it.
            let pause = task.progress.paused.as_ref();
            if pause.is_none_or(|pause| pause.with_run) {
                continue;
            }
            let action = match self.random.below(3) {
                0 => by_hand(&task),
                _ => Action::Resume { reset: true, due: None },
            };
            self.wants(task.call, action);
        }
    }

    /// Somebody cancels a run, or ends it at once.
    fn somebody_ends(&mut self, run: RunKey) {
        let places = self.places();
        let Some(place) = self.random.pick(&places).copied() else { return };
        let reason = "an operator wants it to end".to_string();
        let event = match self.random.one_in(2) {
            true => EventKind::CancelRequested { reason },
            false => EventKind::TerminateRequested { reason },
        };
        let RunKey { uid, run } = run;
        let request = Request::Tell { uid, run, event, reply: self.answers.reply(|_| {}) };
        self.arrived(place, Arrived::input(Input::Request(request)));
    }

    fn open_instances(&self) -> Vec<InstanceRow> {
        let status = Status::ALL.into_iter().filter(|status| !status.is_closed()).collect();
        let open = InstanceFilter { status, limit: 1_000, ..InstanceFilter::default() };
        self.database.model.list(&open)
    }

    fn open_tasks(&self) -> Vec<TaskRow> {
        let model = &self.database.model;
        let tasks = |row: &InstanceRow| model.tasks(RunKey { uid: row.uid, run: row.run });
        self.open_instances().iter().flat_map(tasks).collect()
    }

    /// Most of the time an action that makes sense where the instance stands.
    fn some_action_on_run(&mut self, row: &InstanceRow) -> Action {
        let calls = self.random.one_in(2);
        match (row.status, self.random.below(8)) {
            (Status::Paused, 0..=4) => Action::ResumeRun,
            (Status::Paused, 5) => Action::PauseRun { calls },
            (status, 0..=2) if status.is_closed() => Action::Restart,
            (status, 0..=3) if !status.is_closed() => Action::PauseRun { calls },
            (status, 4) if !status.is_closed() => Action::ResumeRun,
            (status, 5) if !status.is_closed() => Action::Restart,
            _ => Action::Reset(self.some_reset(RunKey { uid: row.uid, run: row.run })),
        }
    }

    fn some_reset(&mut self, run: RunKey) -> Reset {
        let last = self.database.model.history(run).len() as u64;
        let to = match self.random.below(6) {
            0 => ResetTo::LastFailure,
            1 => ResetTo::Before(WORK.to_string()),
            // The first event, and one that is not there yet, are refused.
            _ => ResetTo::Event(Seq(self.random.between(1, last + 1))),
        };
        let (drop_signals, even_if_undone) = (self.random.one_in(4), self.random.one_in(3));
        Reset { to, drop_signals, even_if_undone }
    }

    fn some_action(&mut self, task: &TaskRow) -> Action {
        let (reset, clock_runs) = (self.random.one_in(3), self.random.one_in(3));
        match self.random.below(12) {
            0..=2 => Action::Retry { reset, due: None },
            3..=5 => Action::Pause { clock_runs },
            6..=8 => Action::Resume { reset, due: None },
            9 => by_hand(task),
            10 => Action::Fail { failure: Failure::terminal("an operator gave up") },
            _ => {
                let policy = Maker::new(self.taste, self.random.fork()).policy();
                Action::SetPolicy { policy: policy.to_stored() }
            }
        }
    }

    /// Asks for an action, now and then twice.
    pub(crate) fn wants(&mut self, call: CallKey, action: Action) {
        let number = self.operators.next();
        self.counts.add_action(&action);
        let id = format!("act-{number}");
        let request = ActionRequest { id, by: "ana".to_string(), reason: None, action };
        self.operators.wanted.insert(number, Wanted { call, request });
        self.asks_once_or_twice(number);
    }

    /// Asks for something to be stored, now and then twice.
    pub(crate) fn orders(&mut self, order: Order) {
        let number = self.operators.next();
        self.operators.orders.insert(number, order);
        self.asks_once_or_twice(number);
    }

    fn asks_once_or_twice(&mut self, number: u64) {
        let times = if self.random.one_in(4) { 2 } else { 1 };
        (0..times).for_each(|_| self.operator_asks(number));
    }

    /// An operator asks some process for what they want, and again when nobody has answered.
    pub(crate) fn operator_asks(&mut self, number: u64) {
        let wanted = self.operators.wanted.get(&number).cloned();
        let order = self.operators.orders.get(&number).cloned();
        if wanted.is_none() && order.is_none() {
            return;
        }
        let places = self.places();
        if let Some(place) = self.random.pick(&places).copied() {
            let told = self.answers.clone();
            let act = |Wanted { call, request }| Request::Act {
                call,
                request: Box::new(request),
                reply: self.answers.reply(move |answer| {
                    told.push(Told { user: 0, asked: number, answer: Answer::Acted(answer) });
                }),
            };
            let order = order.map(|order| order.request(&self.answers, number));
            let Some(request) = wanted.map(act).or(order) else { return };
            self.arrived(place, Arrived::input(Input::Request(request)));
        }
        let patience = self.random.delay(Duration::from_secs(1), Duration::from_secs(30));
        self.timeline.after(patience, Event::OperatorPatience(number));
    }

    /// An operator hears that what they want is stored.
    pub(crate) fn operator_told(&mut self, number: u64, answer: Result<()>) {
        if let Some(order) = self.operators.orders.get(&number).cloned() {
            return self.order_told(number, &order, &answer);
        }
        let Some(wanted) = self.operators.wanted.get(&number) else { return };
        match answer {
            Ok(()) => {
                let model = &self.database.model;
                self.database.promises.action_acknowledged(model, wanted);
            }
            Err(error) if error.is_closed() || error.is_unknown() => {}
            // Trouble: they ask again.
            Err(_) => return,
        }
        self.operators.wanted.remove(&number);
    }

    /// An operator hears that an order is stored, or was before.
    fn order_told(&mut self, number: u64, order: &Order, answer: &Result<()>) {
        let is_decided = |error: &Error| error.is_overtaken() || error.is_already_exists();
        let is_trouble = |error: &Error| match order {
            // The database may refuse a row of the start.
            Order::RunAgain(_) => !is_decided(error),
            _ => error.is_transient() || error.is_stopped(),
        };
        if answer.as_ref().is_err_and(is_trouble) {
            // They ask again.
            return;
        }
        let Database { model, promises, .. } = &mut self.database;
        match order {
            Order::Bulk(write) => promises.bulk_acknowledged(model, write, answer.is_ok()),
            // What holds is what the nodes read of it.
            Order::Gate(_) => {}
            Order::Policy(row) => promises.policy_acknowledged(model, row),
            Order::RunAgain(again) => promises.run_again_acknowledged(model, again.call),
            Order::Discard(letter) => promises.discard_acknowledged(model, letter.call()),
        }
        self.operators.orders.remove(&number);
    }
}

/// The value that an operator gives a call, which no attempt gives.
fn by_hand(task: &TaskRow) -> Action {
    let value = Payload::encode(&(task.call.seq.0 as u32, BY_HAND));
    let value = value.unwrap_or_else(|_| Payload::null());
    Action::Complete { value, unchecked: false }
}
