//! What others ask of the engine: start, signal, cancel, wait, stop.

use resurgam_core::{CallKey, Payload, RunKey, Uid};
use resurgam_store::rows::{ActionRequest, InstanceRow, Message as StoredMessage, MessageRow};
use resurgam_store::{
    InstanceWrite, LetterState, LetterWrite, MessageWrite, Report, Reported, Settled, Step,
};

use crate::error::Error;
use crate::handle::{Redrive, StartOptions, Started};
use crate::node::Node;
use crate::node::calls::attempt_result::fitting;
use crate::node::follow_up::FollowUp;
use crate::node::input::Request;
use crate::node::message::now_due;
use crate::node::news::{News, Origin};
use crate::node::reply::Reply;
use crate::node::runs::hot_run::HotRun;
use crate::node::steps::effect::Effect;

impl Node {
    /// Takes a request, now or when it is known whether this node works and which policies
    /// operators set.
    pub(crate) fn asked(&mut self, request: Request) {
        let waits = !matches!(request, Request::Settle { .. } | Request::Stop { .. });
        match waits && self.is_too_early() {
            true => self.deferred.add(request),
            false => self.request(request),
        }
    }

    /// Takes the requests that came too early, if it is not still.
    pub(crate) fn take_deferred(&mut self) {
        if self.is_too_early() {
            return;
        }
        for request in self.deferred.take() {
            self.then(FollowUp::Request(request));
        }
    }

    /// Carries out a request.
    pub(crate) fn request(&mut self, request: Request) {
        match request {
            Request::Start { workflow, input, options, reply } => {
                self.start(&workflow, input, options, reply);
            }
            Request::Tell { uid, run, event, reply } => {
                if let Some(error) = self.refuses(&event) {
                    return self.answer(reply, Err(error));
                }
                let news = News { event, origin: Origin::Request, reply: Some(reply) };
                self.deliver(RunKey { uid, run }, news);
            }
            Request::Act { call, request, reply } => self.ask_for_action(call, request, reply),
            Request::Schedule { step, is_new, reply } => self.write_schedule(*step, is_new, reply),
            Request::SettleLetter { letter, reply } => self.settle_letter(*letter, reply),
            Request::SetPolicy { row, reply } => self.set_override(*row, reply),
            Request::WriteGates { writes, reply } => self.write_gates(writes, reply),
            Request::Bulk { write, reply } => self.ask_for_bulk(*write, reply),
            Request::Report { run, report, reply } => self.store_report(run, *report, reply),
            Request::Wait { uid, reply } => self.wait_for(uid, reply),
            Request::LookForWork => {
                self.memory.due.rescan(self.now);
                self.memory.slots.gates_mut().reads_anew();
                self.then(FollowUp::FillSlots);
                self.look_for_shared();
                self.look_for_gone();
            }
            Request::Settle { reply } => self.settle(reply),
            Request::Stop { reply } => self.stop(reply),
        }
    }

    /// Stores what somebody asks to be done to a call or a run, for the node that holds its shard.
    fn ask_for_action(&mut self, call: CallKey, request: Box<ActionRequest>, reply: Reply<()>) {
        let CallKey { run: RunKey { uid, run }, seq } = call;
        let id = MessageRow::action_id(&request.id);
        let open = InstanceWrite::Open { uid, signals_below: None };
        let instance = Some(open).filter(|_| !request.action.is_on_closed());
        let body = StoredMessage::Action { run, activity: seq, request };
        let step = Step {
            instance,
            messages: vec![MessageWrite::Insert(now_due(uid, id, body))],
            ..Step::default()
        };
        self.outbox.push(step, vec![Effect::Reply(reply), Effect::Reported(uid)]);
    }

    /// Stores what an attempt has to say, for the node that waits for it. Nobody wants to hear it
    /// when the instance is closed.
    fn store_report(&mut self, run: RunKey, mut report: Report, reply: Reply<()>) {
        report.outcome = match report.outcome {
            Reported::Completed(result) => match fitting(result, self.options.max_payload) {
                Ok(result) => Reported::Completed(result),
                Err(failure) => Reported::Failed(failure),
            },
            Reported::Failed(failure) => Reported::Failed(failure.bounded()),
            other => other,
        };
        let id = report.id(run.run);
        let body = StoredMessage::Report { run: run.run, report: Box::new(report) };
        let messages = vec![MessageWrite::InsertIfOpen(now_due(run.uid, id, body))];
        let step = Step { messages, ..Step::default() };
        self.outbox.push(step, vec![Effect::Reply(reply), Effect::Reported(run.uid)]);
    }

    /// Stores what somebody decided about a dead letter.
    fn settle_letter(&mut self, letter: LetterWrite, reply: Reply<()>) {
        if self.stopping.is_some() {
            return self.answer(reply, Err(Error::stopped("settle a dead letter")));
        }
        let step = Step { letters: vec![letter], ..Step::default() };
        self.outbox.push(step, vec![Effect::Reply(reply)]);
    }

    /// The letter that a start tries again, as it is from then on.
    fn redriven(&self, id: &str, redrive: Redrive) -> LetterWrite {
        let Redrive { call, by, reason } = redrive;
        let settled = Settled { at: self.now, by, reason, redriven_as: Some(id.to_string()) };
        LetterWrite::Settle { call, state: LetterState::Redriven, settled }
    }

    /// Starts an instance: its first turn runs at once, and nothing of it happens before it is
    /// durable.
    fn start(
        &mut self,
        workflow: &str,
        input: Payload,
        mut options: StartOptions,
        reply: Reply<Started>,
    ) {
        let id = options.id.clone();
        if self.stopping.is_some() {
            return self.answer(reply, Err(Error::stopped(format!("start {id}"))));
        }
        if let Some(uid) = self.memory.runs.of_id(&id) {
            return self.start_again(uid, id, &options, reply);
        }
        let definition = self.registry.workflow(workflow).cloned();
        let refused = self.refuses_start(workflow, definition.is_some(), &input, &options);
        if let Some(error) = refused {
            return self.answer(reply, Err(error));
        }
        let replaces = options.if_exists.replaces();
        let redrives = options.redrives.take().map(|redrive| self.redriven(&id, *redrive));
        let row = self.new_instance(workflow, input, options);
        let started = Started { id: id.clone(), uid: row.uid, run: 1 };
        let Some(definition) = definition.filter(|_| self.owns(row.uid)) else {
            let started = Effect::Started(reply, started);
            return self.start_for_owner(row, replaces, redrives, started);
        };
        match self.first_turn(&row, &definition) {
            Ok(first) => {
                let first = first.redriving(redrives);
                self.store_start(row, replaces, first, Effect::Started(reply, started));
            }
            Err(error) => self.answer(reply, Err(Error::invalid(format!("start {id}: {error}")))),
        }
    }

    fn new_instance(
        &mut self,
        workflow: &str,
        input: Payload,
        options: StartOptions,
    ) -> InstanceRow {
        let uid = self.random.uid(&options.id, self.now);
        let mut row = InstanceRow::new(uid, options.id, workflow, input, self.now);
        row.queue = options.queue.unwrap_or(row.queue);
        row.request_id = options.request_id;
        row.priority = options.priority;
        row.tags = options.tags;
        row.settings = options.settings;
        row.schedule = options.schedule;
        row
    }

    /// Why an instance cannot be started. A process that only asks does not know which workflows
    /// there are.
    fn refuses_start(
        &mut self,
        workflow: &str,
        is_known: bool,
        input: &Payload,
        options: &StartOptions,
    ) -> Option<Error> {
        let id = &options.id;
        if !is_known && self.options.work {
            let error = format!("start {id}: {}", self.unknown_workflow(workflow));
            return Some(Error::unregistered(error));
        }
        if let Err(error) = self.refuses_settings(&options.settings) {
            return Some(Error::invalid(format!("start {id}: its retry policy: {error}")));
        }
        let (size, most) = (input.len(), self.options.max_payload);
        (size > most).then(|| {
            let error = format!("start {id}: the argument has {size} bytes, {most} are allowed");
            Error::too_large(error)
        })
    }

    /// An instance of this id is in memory. The same request gets the same answer, once the first
    /// one is durable.
    fn start_again(&mut self, uid: Uid, id: String, options: &StartOptions, reply: Reply<Started>) {
        let run = self.memory.runs.get(uid);
        let is_same = |run: &&HotRun| match &options.request_id {
            // Another request may have been answered before: the store knows.
            Some(request) => run.is_of_request(request),
            None => options.if_exists.uses_running(),
        };
        let answer = match run.filter(is_same) {
            Some(run) => Effect::Started(reply, Started { id, uid, run: run.number() }),
            None => Effect::AlreadyExists(reply, id),
        };
        if let Some(answer) = self.memory.runs.answer_behind_start(uid, answer) {
            self.outbox.behind_start(uid, answer);
        }
    }
}
