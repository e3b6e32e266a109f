//! What operators ask to be done, as data: a database and a server are asked for the same.

use std::time::Duration;

use resurgam::gate::Gate;
use resurgam::retry::RetryPolicy;
use resurgam::schedule::Schedule;
use resurgam::{
    Act, Acted, Action, BulkAct, BulkJob, BulkPreview, CallFilter, CallKey, Client,
    DeadLetterFilter, Error, Failure, GateAct, HoldKind, PausedFilter, Payload, Result, RunFilter,
    SetPolicy,
};
use serde_json::value::RawValue;

use crate::work::name_of;

/// Who asks, why, and what makes a repeat one request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Who<'a> {
    pub(crate) by: Option<&'a str>,
    pub(crate) reason: Option<&'a str>,
    pub(crate) request_id: Option<&'a str>,
}

/// What an action is done to.
#[derive(Clone, Debug)]
pub(crate) enum On {
    /// A call by its instance and its name in histories.
    Call { id: String, call: String },
    /// A call by what identifies it for ever.
    Key(CallKey),
    /// The current run of an instance.
    Run(String),
}

/// An action on many.
#[derive(Clone, Debug)]
pub(crate) struct Many {
    pub(crate) those: Those,
    pub(crate) action: Action,
}

/// What an action on many is done to.
#[derive(Clone, Debug)]
pub(crate) enum Those {
    Calls(CallFilter),
    Runs(RunFilter),
    Letters(DeadLetterFilter),
    Paused(PausedFilter),
}

/// How it is done to many.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// To so many at most.
    pub(crate) limit: Option<u64>,
    /// The time that all of them take.
    pub(crate) spread: Duration,
    /// How many are tried first.
    pub(crate) first: Option<u32>,
    /// How many there must be.
    pub(crate) expect: Option<u64>,
}

/// What something would be done to.
#[derive(Clone, Debug)]
pub(crate) struct Preview {
    pub(crate) count: u64,
    /// What they are: `call`, `instance`, `dead letter`.
    pub(crate) of: Option<String>,
    /// The first of them: as programs name them, and as people do.
    pub(crate) listed: Vec<(String, String)>,
}

/// What is done to a gate, or to all calls of a kind.
#[derive(Clone, Debug)]
pub(crate) enum OnGate {
    Shut(String, Option<Duration>),
    Open(String, Option<Duration>),
    Auto(String),
    Set(String, Box<Gate>),
    Unset(String),
    Pause(HoldKind, String),
    Resume(HoldKind, String),
}

/// How a call that was given up is tried again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Again {
    pub(crate) as_new: bool,
    pub(crate) new_key: bool,
}

/// A schedule that is to be there.
#[derive(Clone, Debug)]
pub(crate) struct NewSchedule {
    pub(crate) schedule: Schedule,
    pub(crate) workflow: String,
    pub(crate) argument: Payload,
    pub(crate) queue: Option<String>,
    pub(crate) replace: bool,
}

/// Ends a call with a failure, which its workflow gets.
pub(crate) fn failed(message: &str) -> Action {
    Action::Fail { failure: Failure::terminal(message).with_type("FailedByOperator") }
}

/// An argument as it stands, and not taken apart and put together again.
pub(super) fn raw(argument: &Payload) -> Box<RawValue> {
    argument.decode().expect("we have encoded it ourselves")
}

impl Who<'_> {
    fn signs(self, act: Act) -> Act {
        let act = self.by.into_iter().fold(act, |act, by| act.by(by));
        let act = self.reason.into_iter().fold(act, |act, reason| act.reason(reason));
        self.request_id.into_iter().fold(act, |act, id| act.request_id(id))
    }
}

/// Does something to a call or a run of a database.
pub(super) async fn act(client: &Client, on: &On, action: Action, who: Who<'_>) -> Result<Acted> {
    let act = match on {
        On::Call { id, call } => client.call(id, call).does(action),
        On::Key(key) => client.call_of(*key).does(action),
        On::Run(id) => client.run(id).does(action),
    };
    who.signs(act).await
}

impl Many {
    fn of(self, client: &Client, pace: Pace, who: Who<'_>) -> BulkAct {
        let act = match (self.those, self.action) {
            (Those::Calls(filter), action) => client.calls(filter).does(action),
            (Those::Runs(filter), action) => client.runs(filter).does(action),
            (Those::Letters(filter), Action::Discard) => client.discard(filter),
            (Those::Letters(filter), Action::RedriveAsNew) => client.redrive_all(filter).as_new(),
            (Those::Letters(filter), Action::Redrive(how)) if how.new_key => {
                client.redrive_all(filter).new_key()
            }
            (Those::Letters(filter), _) => client.redrive_all(filter),
            (Those::Paused(filter), Action::Fail { failure }) => {
                client.fail_paused(filter, failure.message.clone())
            }
            (Those::Paused(filter), _) => client.resume_paused(filter),
        };
        let act = act.spread(pace.spread);
        let act = pace.limit.into_iter().fold(act, BulkAct::limit);
        let act = pace.first.into_iter().fold(act, BulkAct::first);
        let act = who.by.into_iter().fold(act, |act, by| act.by(by));
        let act = who.reason.into_iter().fold(act, |act, reason| act.reason(reason));
        who.request_id.into_iter().fold(act, |act, id| act.request_id(id))
    }

    /// What it would be done to in a database.
    pub(super) async fn preview(self, client: &Client, pace: Pace) -> Result<Preview> {
        Ok(Preview::of(&self.of(client, pace, Who::default()).dry_run().await?))
    }

    /// Begins it in a database.
    pub(super) async fn begin(self, client: &Client, pace: Pace, who: Who<'_>) -> Result<BulkJob> {
        let act = self.of(client, pace, who);
        let before = match who.request_id {
            Some(id) => client.bulk_job(id).await?,
            None => None,
        };
        // A repeated request gets the first answer, however many there are by now.
        if let Some(expected) = pace.expect.filter(|_| before.is_none()) {
            let found = act.clone().dry_run().await?.count;
            if found != expected {
                let why = format!("{expected} were expected, and it would be done to {found}");
                return Err(Error::invalid(format!("{why}; look again")));
            }
        }
        act.start().await
    }
}

impl Preview {
    fn of(found: &BulkPreview) -> Self {
        let calls = found.calls.iter().map(|matched| {
            let (task, id) = (&matched.task, &matched.instance);
            ("call", name_of(task.call), format!("{id} {}#{}", task.name, task.call.seq))
        });
        let runs = found.runs.iter().map(|row| ("instance", row.id.clone(), row.id.clone()));
        let letters = found.letters.iter().map(|letter| {
            let name = format!("{} {}#{}", letter.instance, letter.activity, letter.call.seq);
            ("dead letter", name_of(letter.call), name)
        });
        let mut preview = Preview { count: found.count, of: None, listed: Vec::new() };
        for (of, name, told) in calls.chain(runs).chain(letters) {
            preview.of = Some(of.to_string());
            preview.listed.push((name, told));
        }
        preview
    }
}

impl OnGate {
    /// Does it in a database.
    pub(super) async fn act(self, client: &Client, who: Who<'_>) -> Result<Acted> {
        let lasting = |act: GateAct, time: Option<Duration>| match time {
            Some(time) => act.lasting(time),
            None => act,
        };
        let act = match self {
            OnGate::Shut(key, time) => lasting(client.shut_gate(key), time),
            OnGate::Open(key, time) => lasting(client.open_gate(key), time),
            OnGate::Auto(key) => client.auto_gate(key),
            OnGate::Set(key, settings) => client.set_gate(key, *settings),
            OnGate::Unset(key) => client.unset_gate(key),
            OnGate::Pause(HoldKind::Activity, name) => client.pause_activity(name),
            OnGate::Pause(HoldKind::Queue, name) => client.pause_queue(name),
            OnGate::Resume(HoldKind::Activity, name) => client.resume_activity(name),
            OnGate::Resume(HoldKind::Queue, name) => client.resume_queue(name),
        };
        let act = who.by.into_iter().fold(act, |act, by| act.by(by));
        who.reason.into_iter().fold(act, |act, reason| act.reason(reason)).await
    }
}

/// Sets the policy of an activity in a database, or removes it.
pub(super) async fn set_policy(
    client: &Client,
    activity: &str,
    policy: Option<RetryPolicy>,
    who: Who<'_>,
) -> Result<Acted> {
    let set = match policy {
        Some(policy) => client.set_policy(activity, policy),
        None => client.unset_policy(activity),
    };
    let set = who.by.into_iter().fold(set, |set: SetPolicy, by| set.by(by));
    who.reason.into_iter().fold(set, |set, reason| set.reason(reason)).await
}

/// Tries a call of a database again that was given up.
pub(super) async fn redrive(
    client: &Client,
    call: CallKey,
    again: Again,
    who: Who<'_>,
) -> Result<Acted> {
    let act = client.redrive(call);
    let act = if again.as_new { act.as_new() } else { act };
    let act = if again.new_key { act.new_key() } else { act };
    let act = who.by.into_iter().fold(act, |act, by| act.by(by));
    let act = who.reason.into_iter().fold(act, |act, reason| act.reason(reason));
    who.request_id.into_iter().fold(act, |act, id| act.request_id(id)).await
}

/// Settles a dead letter of a database.
pub(super) async fn discard(client: &Client, call: CallKey, who: Who<'_>) -> Result<Acted> {
    let act = client.discard_one(call);
    let act = who.by.into_iter().fold(act, |act, by| act.by(by));
    who.reason.into_iter().fold(act, |act, reason| act.reason(reason)).await
}

impl NewSchedule {
    /// Puts it into a database.
    pub(super) async fn put(self, client: &Client) -> Result<()> {
        let argument = raw(&self.argument);
        let put = client.schedule_as(self.schedule, &self.workflow, &argument);
        let put = self.queue.into_iter().fold(put, |put, queue| put.queue(queue));
        if self.replace { put.replace().await } else { put.await }
    }
}
