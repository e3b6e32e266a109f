//! The store's promises, each sent to the connection that keeps it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use resurgam_core::{CallKey, Event, Failure, RunKey, Shard, Timestamp, Uid, UserWork};
use resurgam_store::outage::OutageLog;
use resurgam_store::rows::{
    ActionRow, AttemptRow, DueDeadline, DueMessage, DueTask, InstanceFilter, InstanceRow, KvRow,
    MessageRow, Owner, PolicyOverride, PolicyRow, RunRecord, TaskRecord, TaskRow,
};
use resurgam_store::{
    Access, Answer, AskedAnswer, Assignment, AttemptTransaction, Bulk, BulkCursor, BulkRecord,
    CallCursor, CallFilter, CallGroup, CallPage, Commit, DeadLetter, DeadLetterFilter, Deleted,
    Deletion, DueSchedules, Error, EventPage, GateCount, GateWaiting, Gates, Inbox, InboxRow,
    Inspect, Node, Own, Owning, PausedCall, PausedFilter, Retain, RunCalls, Runnable,
    ScheduleRecord, Schedules, Staleness, Step, StepResult, StoredGates, Tables, Transacted,
    Unresolved, Work,
};
use tokio::sync::watch;

use crate::commit::shared::ClaimFor;
use crate::pool::Pool;
use crate::store::PostgresStore;
use crate::{read, sweep};

impl PostgresStore {
    pub(crate) fn pool(&self) -> &Pool {
        &self.inner.readers
    }

    /// Says in which database it was when something goes wrong, unless that is said already.
    pub(crate) fn here<'a, T: 'a>(
        &'a self,
        answer: impl Future<Output = resurgam_store::Result<T>> + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            answer.await.map_err(|error| match error.to_string().contains(&self.inner.place) {
                true => error,
                false => error.within(format!("in {}", self.inner.place)),
            })
        })
    }
}

impl Commit for PostgresStore {
    fn commit(&self, batch: Arc<[Step]>) -> Answer<'_, Vec<StepResult>> {
        Box::pin(self.inner.write(batch))
    }

    fn lanes(&self) -> usize {
        self.inner.lanes.count()
    }
}

impl Own for PostgresStore {
    fn try_own(&self, node: Node) -> Answer<'_, Owning> {
        self.here(self.inner.member.join(&self.inner, node))
    }

    fn assignment(&self) -> watch::Receiver<Assignment> {
        self.inner.member.assignment()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn may_begin(&self) -> bool {
        self.inner.member.may_begin()
    }

    fn now(&self) -> Option<Timestamp> {
        self.inner.clock.now()
    }

    fn take<'a>(&'a self, node: &'a str, shards: Arc<[Shard]>) -> Answer<'a, Vec<Shard>> {
        self.here(async move { self.inner.member.take(&self.inner, node, &shards).await })
    }

    fn release<'a>(&'a self, node: &'a str, shards: Arc<[Shard]>) -> Answer<'a, ()> {
        self.here(async move { self.inner.member.release(&self.inner, node, &shards).await })
    }

    fn disown(&self) -> Answer<'_, ()> {
        Box::pin(async {
            self.inner.disown();
            Ok(())
        })
    }

    /// What is committed is where it is to rest. A node whose right was dropped has left after
    /// this, so that others share its part among them at once, also when the process ends next.
    fn flush(&self) -> Answer<'_, ()> {
        Box::pin(async {
            self.inner.member.finish(&self.inner).await;
            Ok(())
        })
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async {
            PostgresStore::close(self).await;
            Ok(())
        })
    }

    fn is_overtaken(&self) -> bool {
        self.inner.overtaken.load(Ordering::Relaxed)
    }

    fn gone(&self) -> Option<Error> {
        self.inner.changes.gone()
    }

    fn owner(&self) -> Answer<'_, Option<Owner>> {
        self.here(self.inner.member.owner(&self.inner))
    }

    fn nodes(&self) -> Answer<'_, Vec<Owner>> {
        self.here(self.inner.member.nodes(&self.inner))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changes.told()
    }

    fn outage_log(&self) -> Option<Arc<OutageLog>> {
        Some(self.inner.outages().clone())
    }
}

impl Tables for PostgresStore {
    fn transact(&self, attempt: Arc<AttemptTransaction>) -> Answer<'_, Transacted> {
        self.here(async move { self.inner.transact(&attempt).await })
    }

    fn on_tables(&self, access: Access, work: UserWork) -> Answer<'_, Result<(), Failure>> {
        self.here(self.inner.on_tables(access, work))
    }
}

impl Schedules for PostgresStore {
    fn due_schedules(&self, now: Timestamp, limit: usize) -> Answer<'_, DueSchedules> {
        self.here(
            async move { read::due_schedules(self.pool(), &self.inner.scope(), now, limit).await },
        )
    }

    fn waiting_schedules(&self, after: &str, limit: usize) -> Answer<'_, Vec<ScheduleRecord>> {
        let after = after.to_string();
        self.here(async move {
            read::waiting_schedules(self.pool(), &self.inner.scope(), &after, limit).await
        })
    }

    fn schedule(&self, id: &str) -> Answer<'_, Option<ScheduleRecord>> {
        let id = id.to_string();
        self.here(async move { read::schedule(self.pool(), &id).await })
    }

    fn schedules(&self, after: &str, limit: usize) -> Answer<'_, Vec<ScheduleRecord>> {
        let after = after.to_string();
        self.here(async move { read::schedules(self.pool(), &after, limit).await })
    }
}

impl Bulk for PostgresStore {
    fn open_bulk(&self, limit: usize) -> Answer<'_, Vec<BulkRecord>> {
        self.here(async move { read::open_bulk(self.pool(), &self.inner.scope(), limit).await })
    }

    fn bulk(&self, id: &str) -> Answer<'_, Option<BulkRecord>> {
        let id = id.to_string();
        self.here(async move { read::bulk(self.pool(), &id).await })
    }

    fn bulk_list(&self, after: Option<BulkCursor>, limit: usize) -> Answer<'_, Vec<BulkRecord>> {
        self.here(async move { read::bulk_list(self.pool(), after, limit).await })
    }

    fn oldest_bulk(&self) -> Answer<'_, Option<Timestamp>> {
        self.here(async move { read::oldest_bulk(self.pool()).await })
    }

    fn matching_calls(
        &self,
        filter: CallFilter,
        after: Option<CallKey>,
        limit: usize,
    ) -> Answer<'_, CallPage> {
        self.here(async move { read::matching_calls(self.pool(), &filter, after, limit).await })
    }

    fn run_calls(
        &self,
        runs: Arc<[RunKey]>,
        activity: Option<String>,
    ) -> Answer<'_, Vec<RunCalls>> {
        self.here(async move { read::run_calls(self.pool(), &runs, activity.as_deref()).await })
    }

    fn answers(&self, asked: Arc<[(CallKey, String)]>) -> Answer<'_, Vec<AskedAnswer>> {
        self.here(async move { read::answers(self.pool(), &asked).await })
    }
}

impl Gates for PostgresStore {
    fn gates(&self) -> Answer<'_, StoredGates> {
        self.here(read::gates(self.pool()))
    }

    fn gate_counts(&self, from: Timestamp) -> Answer<'_, Vec<GateCount>> {
        self.here(read::gate_counts(self.pool(), from))
    }

    fn waiting_gates(&self, after: &str, limit: usize) -> Answer<'_, Vec<String>> {
        let after = after.to_string();
        self.here(async move { read::waiting_gates(self.pool(), &after, limit).await })
    }

    fn count_waiting(
        &self,
        gates: Arc<[String]>,
        before: Timestamp,
        at_most: usize,
    ) -> Answer<'_, Vec<GateWaiting>> {
        self.here(async move { read::count_waiting(self.pool(), &gates, before, at_most).await })
    }
}

impl Inbox for PostgresStore {
    fn inbox(&self, limit: usize) -> Answer<'_, Vec<InboxRow>> {
        self.here(async move { read::inbox(self.pool(), &self.inner.scope(), limit).await })
    }
}

impl Retain for PostgresStore {
    fn delete_closed(&self, wanted: Deletion) -> Answer<'_, Deleted> {
        self.here(async move { sweep::delete(self.pool(), &wanted).await })
    }
}

impl Unresolved for PostgresStore {
    fn dead_letter(&self, call: CallKey) -> Answer<'_, Option<DeadLetter>> {
        self.here(read::dead_letter(self.pool(), call))
    }

    fn dead_letters(&self, filter: DeadLetterFilter) -> Answer<'_, Vec<DeadLetter>> {
        self.here(async move { read::dead_letters(self.pool(), &filter).await })
    }

    fn dead_letter_places(&self, filter: DeadLetterFilter) -> Answer<'_, Vec<CallCursor>> {
        self.here(async move { read::dead_letter_places(self.pool(), &filter).await })
    }

    fn dead_letter_groups(&self, filter: DeadLetterFilter) -> Answer<'_, Vec<CallGroup>> {
        self.here(async move { read::dead_letter_groups(self.pool(), &filter).await })
    }

    fn oldest_dead_letter(&self) -> Answer<'_, Option<Timestamp>> {
        self.here(read::oldest_dead_letter(self.pool()))
    }

    fn paused_calls(&self, filter: PausedFilter) -> Answer<'_, Vec<PausedCall>> {
        self.here(async move { read::paused_calls(self.pool(), &filter).await })
    }

    fn paused_count(&self) -> Answer<'_, u64> {
        self.here(async move { read::paused_count(self.pool(), &self.inner.scope()).await })
    }

    fn paused_groups(&self, filter: PausedFilter) -> Answer<'_, Vec<CallGroup>> {
        self.here(async move { read::paused_groups(self.pool(), &filter).await })
    }
}

impl Work for PostgresStore {
    fn due_tasks(
        &self,
        runnable: Runnable,
        before: Timestamp,
        limit: usize,
    ) -> Answer<'_, Vec<DueTask>> {
        self.here(async move {
            read::due_tasks(self.pool(), &self.inner.scope(), &runnable, before, limit).await
        })
    }

    fn due_deadlines(
        &self,
        after: Option<DueDeadline>,
        before: Timestamp,
        limit: usize,
    ) -> Answer<'_, Vec<DueDeadline>> {
        self.here(async move {
            read::due_deadlines(self.pool(), &self.inner.scope(), after, before, limit).await
        })
    }

    fn due_messages(&self, before: Timestamp, limit: usize) -> Answer<'_, Vec<DueMessage>> {
        self.here(async move {
            read::due_messages(self.pool(), &self.inner.scope(), before, limit).await
        })
    }

    fn held_up(&self, after: Option<Uid>, limit: usize) -> Answer<'_, Vec<Uid>> {
        self.here(
            async move { read::held_up(self.pool(), &self.inner.scope(), after, limit).await },
        )
    }

    fn abandoned(&self, node: &str, limit: usize) -> Answer<'_, Vec<TaskRow>> {
        let node = node.to_string();
        self.here(
            async move { read::abandoned(self.pool(), &self.inner.scope(), &node, limit).await },
        )
    }

    fn claim_shared(
        &self,
        node: &str,
        runnable: Runnable,
        now: Timestamp,
        limit: usize,
    ) -> Answer<'_, (Vec<TaskRow>, Option<Timestamp>)> {
        let node = node.to_string();
        self.here(async move {
            let (calls, next) =
                read::shared_tasks(self.pool(), &node, &runnable, now, limit).await?;
            let claim_for = if runnable.probing { ClaimFor::Probe } else { ClaimFor::Run };
            Ok((self.inner.claim_shared(&node, &calls, now, claim_for).await?, next))
        })
    }

    fn claim_shared_call(
        &self,
        node: &str,
        call: CallKey,
        now: Timestamp,
    ) -> Answer<'_, Option<TaskRow>> {
        let node = node.to_string();
        self.here(async move {
            Ok(self.inner.claim_shared(&node, &[call], now, ClaimFor::End).await?.pop())
        })
    }

    fn take_over(
        &self,
        node: &str,
        call: CallKey,
        token: u64,
        now: Timestamp,
    ) -> Answer<'_, Option<TaskRow>> {
        let node = node.to_string();
        self.here(async move { self.inner.take_over(&node, call, token, now).await })
    }

    fn policy_overrides(&self) -> Answer<'_, Vec<PolicyOverride>> {
        self.here(async move { read::policy_overrides(self.pool()).await })
    }

    fn waiting_calls(
        &self,
        activity: &str,
        after: Option<CallKey>,
        limit: usize,
    ) -> Answer<'_, Vec<CallKey>> {
        let activity = activity.to_string();
        self.here(async move {
            let scope = self.inner.scope();
            read::waiting_calls(self.pool(), &scope, &activity, after, limit).await
        })
    }

    fn tasks_of(&self, calls: Arc<[CallKey]>) -> Answer<'_, Vec<TaskRow>> {
        self.here(async move { read::tasks_of(self.pool(), &calls).await })
    }

    fn load_task(&self, call: CallKey) -> Answer<'_, Option<TaskRecord>> {
        let read =
            move |calls: Vec<CallKey>| async move { read::load_tasks(self.pool(), &calls).await };
        self.here(self.inner.tasks.ask(call, read))
    }

    fn load_tasks(&self, calls: Arc<[CallKey]>) -> Answer<'_, Vec<TaskRecord>> {
        self.here(async move {
            let found = read::load_tasks(self.pool(), &calls).await?;
            Ok(found.into_values().filter_map(Result::ok).collect())
        })
    }

    fn load_run(&self, uid: Uid) -> Answer<'_, Option<RunRecord>> {
        let read = move |uids: Vec<Uid>| async move { read::load_runs(self.pool(), &uids).await };
        self.here(self.inner.runs.ask(uid, read))
    }

    fn due_messages_of(&self, uid: Uid, before: Timestamp) -> Answer<'_, Vec<MessageRow>> {
        let read = move |asked: Vec<(Uid, Timestamp)>| async move {
            read::due_messages_of(self.pool(), &asked).await
        };
        self.here(async move {
            Ok(self.inner.messages.ask((uid, before), read).await?.unwrap_or_default())
        })
    }
}

impl Inspect for PostgresStore {
    fn staleness(&self) -> Answer<'_, Option<Staleness>> {
        self.here(async move { read::staleness(self.pool()).await })
    }

    fn policy(&self, hash: &str) -> Answer<'_, Option<PolicyRow>> {
        let hash = hash.to_string();
        self.here(async move { read::policy(self.pool(), &hash).await })
    }

    fn find(&self, id: &str) -> Answer<'_, Option<InstanceRow>> {
        let id = id.to_string();
        self.here(async move { read::find(self.pool(), &id).await })
    }

    fn find_request(&self, request_id: &str) -> Answer<'_, Option<InstanceRow>> {
        let request = request_id.to_string();
        self.here(async move { read::find_request(self.pool(), &request).await })
    }

    fn signalled(&self, id: &str, request_id: &str) -> Answer<'_, bool> {
        let (id, request) = (id.to_string(), request_id.to_string());
        self.here(async move { read::signalled(self.pool(), &id, &request).await })
    }

    fn instance(&self, uid: Uid) -> Answer<'_, Option<InstanceRow>> {
        self.here(read::instance(self.pool(), uid))
    }

    fn closed(&self, uids: Arc<[Uid]>) -> Answer<'_, Vec<InstanceRow>> {
        self.here(async move { read::closed(self.pool(), &uids).await })
    }

    fn missing(&self, uids: Arc<[Uid]>) -> Answer<'_, Vec<Uid>> {
        self.here(async move { read::missing(self.pool(), &uids).await })
    }

    fn list(&self, filter: InstanceFilter) -> Answer<'_, Vec<InstanceRow>> {
        self.here(async move { read::list(self.pool(), &filter).await })
    }

    fn with_prefix(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Answer<'_, Vec<InstanceRow>> {
        let (prefix, after) = (prefix.to_string(), after.map(str::to_string));
        self.here(
            async move { read::with_prefix(self.pool(), &prefix, after.as_deref(), limit).await },
        )
    }

    fn history(&self, run: RunKey) -> Answer<'_, Vec<Event>> {
        self.here(read::history(self.pool(), run))
    }

    fn event_page(&self, run: RunKey, page: EventPage, limit: usize) -> Answer<'_, Vec<Event>> {
        self.here(read::event_page(self.pool(), run, page, limit))
    }

    fn attempts(&self, run: RunKey) -> Answer<'_, Vec<AttemptRow>> {
        self.here(read::attempts(self.pool(), run))
    }

    fn actions(&self, run: RunKey) -> Answer<'_, Vec<ActionRow>> {
        self.here(read::actions(self.pool(), run))
    }

    fn action(&self, uid: Uid, id: &str) -> Answer<'_, Option<ActionRow>> {
        let id = id.to_string();
        self.here(async move { read::action(self.pool(), uid, &id).await })
    }

    fn tasks(&self, run: RunKey) -> Answer<'_, Vec<TaskRow>> {
        self.here(read::tasks(self.pool(), run))
    }

    fn messages(&self, uid: Uid) -> Answer<'_, Vec<MessageRow>> {
        self.here(read::messages(self.pool(), uid))
    }

    fn cancel_requested(&self, run: RunKey) -> Answer<'_, bool> {
        self.here(read::cancel_requested(self.pool(), run))
    }

    fn kv(&self, uid: Uid, key: &str) -> Answer<'_, Option<KvRow>> {
        let key = key.to_string();
        self.here(async move { read::kv(self.pool(), uid, &key).await })
    }
}
