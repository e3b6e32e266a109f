//! What the commands of operators ask, of a database or of a server that stands before one.
//!
//! A command says what it wants to know or to have done and prints the answer; it does not know who
//! answers. The answers of a server are read into the types that a database answers with
//! (`wire.rs`), so that everything is printed in one place, and what a server refuses is the error
//! that the database would have been. [`reach`] is how a command says where to ask.

mod acts;
mod address;
mod ask;
mod http;
mod reach;
mod server;
mod wire;

use resurgam::retry::RetryPolicy;
use resurgam::schedule::ScheduleDescription;
use resurgam::{
    Acted, Action, ActionRow, AttemptRow, BulkJob, CallGroup, CallKey, Client, ClosedFilter,
    DeadLetter, DeadLetterFilter, Description, Event, GateStatus, Hold, InstanceCursor,
    InstanceFilter, InstanceRow, Outcome, PausedCall, PausedFilter, Payload, PolicyOverride,
    Result, RunFilter, Timestamp, Uid,
};
use resurgam_core::export::Export;

pub(crate) use acts::{Again, Many, NewSchedule, On, OnGate, Pace, Preview, Those, Who, failed};
pub(crate) use reach::{Reach, TOKEN_VARIABLE};
pub(crate) use server::Server;

/// Who answers an operator.
#[derive(Clone, Debug)]
pub(crate) enum Operator {
    /// The database itself.
    Database(Client),
    /// A server, over HTTP.
    Server(Server),
}

/// An instance that is to be started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewInstance<'a> {
    pub(crate) id: &'a str,
    pub(crate) workflow: &'a str,
    pub(crate) argument: &'a Payload,
    pub(crate) queue: Option<&'a str>,
}

/// Asks whoever answers.
macro_rules! ask {
    ($self:ident, $client:ident => $of_database:expr, $server:ident => $of_server:expr) => {
        match $self {
            Operator::Database($client) => $of_database,
            Operator::Server($server) => $of_server,
        }
    };
}

impl Operator {
    /// What it is, for people.
    pub(crate) fn noun(&self) -> &'static str {
        ask!(self, _client => "database", _server => "server")
    }

    /// The time, by the clock of whoever answers.
    pub(crate) fn now(&self) -> Timestamp {
        ask!(self, client => client.handle().now(), server => server.now())
    }

    /// Whether somebody works on the database.
    pub(crate) async fn has_worker(&self) -> Result<bool> {
        ask!(self, client => Ok(client.owner().await?.is_some()),
             server => server.has_worker().await)
    }

    /// Runs, the newest first, those behind a place.
    pub(crate) async fn runs(
        &self,
        filter: RunFilter,
        after: Option<InstanceCursor>,
        limit: usize,
    ) -> Result<Vec<InstanceRow>> {
        ask!(self, client => client.runs(filter).list(after, limit).await,
             server => server.runs(filter, after, limit).await)
    }

    /// Instances, the newest first.
    pub(crate) async fn list(&self, filter: InstanceFilter) -> Result<Vec<InstanceRow>> {
        ask!(self, client => client.list(filter).await, server => server.list(filter).await)
    }

    /// The instance of this id. Of the argument of a program or a graph, a server tells only what
    /// was given to it.
    pub(crate) async fn find(&self, id: &str) -> Result<Option<InstanceRow>> {
        ask!(self, client => client.find(id).await,
             server => Ok(server.describe(id).await?.map(|found| found.instance)))
    }

    /// The instance of this id with all of its argument. A server leaves secrets out of it.
    pub(crate) async fn find_whole(&self, id: &str) -> Result<Option<InstanceRow>> {
        ask!(self, client => client.find(id).await, server => server.find_whole(id).await)
    }

    /// An argument as whoever answers shows those that are there.
    pub(crate) fn shown(&self, argument: &Payload) -> Payload {
        ask!(self, _client => argument.clone(),
             _server => resurgam_graph::without_secrets(argument))
    }

    /// What an instance waits for.
    pub(crate) async fn describe(&self, id: &str) -> Result<Option<Description>> {
        ask!(self, client => client.describe(id).await, server => server.describe(id).await)
    }

    /// The same by what identifies it for ever.
    pub(crate) async fn describe_uid(&self, uid: Uid) -> Result<Description> {
        ask!(self, client => client.instance_of(uid).describe().await,
             server => server.describe_uid(uid).await)
    }

    /// The events of a run, the current one unless it is named.
    pub(crate) async fn events(&self, uid: Uid, run: Option<u32>) -> Result<Vec<Event>> {
        ask!(self, client => client.instance_of(uid).events(run).await,
             server => server.events(uid, run).await)
    }

    /// The attempts of a run that did not succeed at once.
    pub(crate) async fn attempts(&self, uid: Uid, run: Option<u32>) -> Result<Vec<AttemptRow>> {
        ask!(self, client => client.instance_of(uid).attempts(run).await,
             server => server.attempts(uid, run).await)
    }

    /// What operators did to a run.
    pub(crate) async fn actions(&self, uid: Uid, run: Option<u32>) -> Result<Vec<ActionRow>> {
        ask!(self, client => client.instance_of(uid).actions(run).await,
             server => server.actions(uid, run).await)
    }

    /// All runs of an instance. A server leaves secrets of graphs out of them.
    pub(crate) async fn export(&self, id: &str) -> Result<Option<Export>> {
        let text = match self {
            Operator::Database(client) => client.export_history(id).await?,
            Operator::Server(server) => return server.export(id).await,
        };
        let read = |text: String| Export::from_json(&text).map_err(resurgam::Error::invalid);
        text.map(read).transpose()
    }

    /// Waits until an instance is closed. A server that is gone for a while is waited for.
    pub(crate) async fn outcome(&self, uid: Uid) -> Result<Outcome> {
        ask!(self, client => client.handle().outcome(uid).await,
             server => server.outcome(uid).await)
    }

    /// Starts an instance.
    pub(crate) async fn start(&self, new: NewInstance<'_>) -> Result<()> {
        let NewInstance { id, workflow, argument, queue } = new;
        let client = match self {
            Operator::Database(client) => client,
            Operator::Server(server) => return server.start(new).await,
        };
        let argument = acts::raw(argument);
        let start = client.start_named::<serde_json::Value>(id, workflow, &argument);
        let start = queue.into_iter().fold(start, |start, queue| start.queue(queue));
        start.await.map(drop)
    }

    /// Sends a signal.
    pub(crate) async fn signal(
        &self,
        id: &str,
        name: &str,
        value: &serde_json::Value,
    ) -> Result<()> {
        ask!(self, client => client.signal(id, name, value).await,
             server => server.signal(id, name, value).await)
    }

    /// Asks an instance to end.
    pub(crate) async fn cancel(&self, id: &str, reason: &str) -> Result<()> {
        ask!(self, client => client.cancel(id, reason).await,
             server => server.end("cancel", id, reason).await)
    }

    /// Ends an instance where it stands.
    pub(crate) async fn terminate(&self, id: &str, reason: &str) -> Result<()> {
        ask!(self, client => client.terminate(id, reason).await,
             server => server.end("terminate", id, reason).await)
    }

    /// Does something to a call or to a run.
    pub(crate) async fn act(&self, on: &On, action: Action, who: Who<'_>) -> Result<Acted> {
        ask!(self, client => acts::act(client, on, action, who).await,
             server => server.act(on, &action, who).await)
    }

    /// What something would be done to.
    pub(crate) async fn preview(&self, many: Many, pace: Pace) -> Result<Preview> {
        ask!(self, client => many.preview(client, pace).await,
             server => server.preview(many, pace).await)
    }

    /// Begins to do something to many.
    pub(crate) async fn begin(&self, many: Many, pace: Pace, who: Who<'_>) -> Result<BulkJob> {
        ask!(self, client => many.begin(client, pace, who).await,
             server => server.begin(many, pace, who).await)
    }

    /// An action on many.
    pub(crate) async fn bulk_job(&self, id: &str) -> Result<Option<BulkJob>> {
        ask!(self, client => client.bulk_job(id).await, server => server.bulk_job(id).await)
    }

    /// Actions on many, the newest first, those behind this one.
    pub(crate) async fn bulk_jobs(
        &self,
        after: Option<&BulkJob>,
        limit: usize,
    ) -> Result<Vec<BulkJob>> {
        ask!(self, client => client.bulk_jobs(after, limit).await,
             server => server.bulk_jobs(after, limit).await)
    }

    /// Has an action on many ask for nothing more. False when it was over.
    pub(crate) async fn stop_bulk(&self, id: &str, by: &str) -> Result<bool> {
        ask!(self, client => client.stop_bulk(id, by).await,
             server => server.stop_bulk(id, by).await)
    }

    /// Waits until an action on many is over, or nobody works who could go on with it. A server
    /// that is gone for a while is waited for.
    pub(crate) async fn bulk_over(&self, id: &str) -> Result<BulkJob> {
        ask!(self, client => client.bulk_over(id).await, server => server.bulk_over(id).await)
    }

    /// The gates, and the kinds of calls that are paused.
    pub(crate) async fn gates(&self) -> Result<(Vec<GateStatus>, Vec<Hold>)> {
        ask!(self, client => Ok((client.gates().await?, client.holds().await?)),
             server => server.gates().await)
    }

    /// A gate.
    pub(crate) async fn gate(&self, key: &str) -> Result<Option<GateStatus>> {
        ask!(self, client => client.gate(key).await, server => server.gate(key).await)
    }

    /// Does something to a gate, or to all calls of a kind.
    pub(crate) async fn on_gate(&self, does: OnGate, who: Who<'_>) -> Result<Acted> {
        ask!(self, client => does.act(client, who).await,
             server => server.on_gate(does, who).await)
    }

    /// The policies that are set for activities.
    pub(crate) async fn policies(&self) -> Result<Vec<PolicyOverride>> {
        ask!(self, client => client.policies().await, server => server.policies().await)
    }

    /// Sets the policy of an activity, or removes it.
    pub(crate) async fn set_policy(
        &self,
        activity: &str,
        policy: Option<RetryPolicy>,
        who: Who<'_>,
    ) -> Result<Acted> {
        ask!(self, client => acts::set_policy(client, activity, policy, who).await,
             server => server.set_policy(activity, policy, who).await)
    }

    /// All schedules.
    pub(crate) async fn schedules(&self) -> Result<Vec<ScheduleDescription>> {
        ask!(self, client => client.schedules().await, server => server.schedules().await)
    }

    /// A schedule. Of the argument of a program or a graph, a server tells only what was given.
    pub(crate) async fn schedule(&self, id: &str) -> Result<Option<ScheduleDescription>> {
        ask!(self, client => client.describe_schedule(id).await,
             server => server.schedule(id).await)
    }

    /// The same with all of its argument. A server leaves secrets out of it.
    pub(crate) async fn schedule_whole(&self, id: &str) -> Result<Option<ScheduleDescription>> {
        ask!(self, client => client.describe_schedule(id).await,
             server => server.schedule_whole(id).await)
    }

    /// Creates a schedule, or changes it.
    pub(crate) async fn put_schedule(&self, new: NewSchedule) -> Result<()> {
        ask!(self, client => new.put(client).await, server => server.put_schedule(&new).await)
    }

    /// Pauses a schedule.
    pub(crate) async fn pause_schedule(&self, id: &str) -> Result<()> {
        ask!(self, client => client.pause_schedule(id).await,
             server => server.on_schedule("pause", id).await.map(drop))
    }

    /// Lets a schedule fire again.
    pub(crate) async fn resume_schedule(&self, id: &str) -> Result<()> {
        ask!(self, client => client.resume_schedule(id).await,
             server => server.on_schedule("resume", id).await.map(drop))
    }

    /// Starts an instance of a schedule, and tells its id.
    pub(crate) async fn run_schedule(&self, id: &str) -> Result<String> {
        ask!(self, client => client.run_schedule_now(id).await,
             server => server.run_schedule(id).await)
    }

    /// Starts the firings of a past range, and tells how many.
    pub(crate) async fn backfill(&self, id: &str, from: Timestamp, to: Timestamp) -> Result<u64> {
        ask!(self, client => client.backfill(id, from, to).await,
             server => server.backfill(id, from, to).await)
    }

    /// Deletes a schedule.
    pub(crate) async fn delete_schedule(&self, id: &str) -> Result<()> {
        ask!(self, client => client.delete_schedule(id).await,
             server => server.delete_schedule(id).await)
    }

    /// Dead letters, the newest first.
    pub(crate) async fn dead_letters(&self, filter: DeadLetterFilter) -> Result<Vec<DeadLetter>> {
        ask!(self, client => client.dead_letters(filter).await,
             server => server.dead_letters(filter).await)
    }

    /// Dead letters by what they have in common.
    pub(crate) async fn dead_letter_groups(
        &self,
        filter: DeadLetterFilter,
    ) -> Result<Vec<CallGroup>> {
        ask!(self, client => client.dead_letter_groups(filter).await,
             server => server.dead_letter_groups(filter).await)
    }

    /// The dead letter of a call.
    pub(crate) async fn dead_letter(&self, call: CallKey) -> Result<Option<DeadLetter>> {
        ask!(self, client => client.dead_letter(call).await,
             server => server.dead_letter(call).await)
    }

    /// Tries a call again that was given up.
    pub(crate) async fn redrive(&self, call: CallKey, again: Again, who: Who<'_>) -> Result<Acted> {
        ask!(self, client => acts::redrive(client, call, again, who).await,
             server => server.redrive(call, again, who).await)
    }

    /// Settles a dead letter about which nothing is to be done.
    pub(crate) async fn discard(&self, call: CallKey, who: Who<'_>) -> Result<Acted> {
        ask!(self, client => acts::discard(client, call, who).await,
             server => server.discard(call, who).await)
    }

    /// Paused calls, those that were paused last first.
    pub(crate) async fn paused_calls(&self, filter: PausedFilter) -> Result<Vec<PausedCall>> {
        ask!(self, client => client.paused_calls(filter).await,
             server => server.paused_calls(filter).await)
    }

    /// Paused calls by what they have in common.
    pub(crate) async fn paused_groups(&self, filter: PausedFilter) -> Result<Vec<CallGroup>> {
        ask!(self, client => client.paused_groups(filter).await,
             server => server.paused_groups(filter).await)
    }

    /// Deletes a closed instance.
    pub(crate) async fn delete(&self, id: &str) -> Result<()> {
        ask!(self, client => client.delete(id).await, server => server.delete(id).await)
    }

    /// Deletes closed instances, and tells how many.
    pub(crate) async fn delete_closed(&self, filter: ClosedFilter) -> Result<u64> {
        ask!(self, client => client.delete_closed(filter).await,
             server => server.delete_closed(filter).await)
    }
}
