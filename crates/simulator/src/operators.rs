//! Operators: they do something to calls that are open, ask again when nobody answers, and in the
//! end let go on whatever is paused.

use std::collections::BTreeMap;
use std::time::Duration;

use resurgam_core::action::Action;
use resurgam_core::{CallKey, Failure, Payload, RunKey};
use resurgam_store::rows::{ActionRequest, InstanceFilter, InstanceRow, Status, TaskRow};
use resurgam_worker::Result;
use resurgam_worker::node::{Input, Request};

use crate::host::Arrived;
use crate::program::{BY_HAND, Maker};
use crate::users::{Answer, Told};
use crate::world::{Event, World};

/// The longest time between two actions.
const LULL: Duration = Duration::from_secs(20);

/// What operators want, and have not heard of yet.
#[derive(Debug, Default)]
pub(crate) struct Operators {
    asked: u64,
    wanted: BTreeMap<u64, Wanted>,
}

/// Something that is to be done to a call.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// The call.
    pub(crate) call: CallKey,
    /// What is to be done to it.
    pub(crate) request: ActionRequest,
}

impl World {
    /// An operator does something to some call, if one is open.
    pub(crate) fn operator_acts(&mut self) {
        if self.is_calm() {
            return;
        }
        let tasks = self.open_tasks();
        if let Some(task) = self.random.pick(&tasks).cloned() {
            let action = self.some_action(&task);
            self.wants(&task, action);
        }
        let lull = self.random.delay(Duration::from_millis(10), LULL);
        self.timeline.after(lull, Event::Operator);
    }

    /// Everything is to come to its end: what is paused goes on, or is ended by hand.
    pub(crate) fn operators_let_go_on(&mut self) {
        for task in self.open_tasks() {
            if task.progress.paused.is_none() {
                continue;
            }
            let action = match self.random.below(3) {
                0 => by_hand(&task),
                _ => Action::Resume { reset: true, due: None },
            };
            self.wants(&task, action);
        }
    }

    fn open_tasks(&self) -> Vec<TaskRow> {
        let model = &self.database.model;
        let status = Status::ALL.into_iter().filter(|status| !status.is_closed()).collect();
        let open = InstanceFilter { status, limit: 1_000, ..InstanceFilter::default() };
        let tasks = |row: &InstanceRow| model.tasks(RunKey { uid: row.uid, run: row.run });
        model.list(&open).iter().flat_map(tasks).collect()
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
                let policy = Maker::new(self.random.fork()).policy();
                Action::SetPolicy { policy: policy.to_stored() }
            }
        }
    }

    /// Asks for an action, now and then twice.
    fn wants(&mut self, task: &TaskRow, action: Action) {
        self.operators.asked += 1;
        let number = self.operators.asked;
        self.counts.add_action(&action);
        let id = format!("act-{number}");
        let request = ActionRequest { id, by: "ana".to_string(), reason: None, action };
        self.operators.wanted.insert(number, Wanted { call: task.call, request });
        let times = if self.random.one_in(4) { 2 } else { 1 };
        (0..times).for_each(|_| self.operator_asks(number));
    }

    /// An operator asks some process for what they want, and again when nobody has answered.
    pub(crate) fn operator_asks(&mut self, number: u64) {
        let Some(Wanted { call, request }) = self.operators.wanted.get(&number).cloned() else {
            return;
        };
        let places = self.places();
        if let Some(place) = self.random.pick(&places).copied() {
            let told = self.answers.clone();
            let reply = self.answers.reply(move |answer| {
                told.push(Told { user: 0, asked: number, answer: Answer::Acted(answer) });
            });
            let request = Request::Act { call, request: Box::new(request), reply };
            self.arrived(place, Arrived::input(Input::Request(request)));
        }
        let patience = self.random.delay(Duration::from_secs(1), Duration::from_secs(30));
        self.timeline.after(patience, Event::OperatorPatience(number));
    }

    /// An operator hears that what they want is stored.
    pub(crate) fn operator_told(&mut self, number: u64, answer: Result<()>) {
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
}

/// The value that an operator gives a call, which no attempt gives.
fn by_hand(task: &TaskRow) -> Action {
    let value = Payload::encode(&(task.call.seq.0 as u32, BY_HAND));
    let value = value.unwrap_or_else(|_| Payload::null());
    Action::Complete { value, unchecked: false }
}
