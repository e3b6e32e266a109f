//! Instances: looking at them, and acting on them and on their calls.

use resurgam::{
    Acted, Action, ActionRow, AttemptRow, ClosedFilter, Description, Error, Event, InstanceCursor,
    InstanceFilter, InstanceRow, Outcome, Payload, Result, RunFilter, RunKey, Status, Timestamp,
    Uid, os_user,
};
use resurgam_core::Code;
use resurgam_core::export::{Export, ExportedRun};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{AGAIN, PAGE, Server, about, fields, signed, signed_ask};
use crate::operator::acts::{On, Who, raw};
use crate::operator::ask::{self, Ask, checked_key, encoded, given};
use crate::operator::{NewInstance, wire};
use crate::work::name_of;

/// How long the server may hold back an answer about the end of an instance.
const WAIT_MS: u64 = 20_000;

/// How many instances are deleted at once.
const AT_ONCE: usize = 8;

impl Server {
    pub(in crate::operator) async fn has_worker(&self) -> Result<bool> {
        let what = "ask who works on the store";
        let nodes: wire::Page<wire::Node> = self.ask(what, Ask::get("nodes")).await?;
        Ok(!nodes.items.is_empty())
    }

    pub(in crate::operator) async fn runs(
        &self,
        filter: RunFilter,
        after: Option<InstanceCursor>,
        limit: usize,
    ) -> Result<Vec<InstanceRow>> {
        let list = Ask::get("instances")
            .with("status", statuses(&filter.status))
            .with("workflow", filter.workflow)
            .with("activity", filter.activity)
            .with("failure_type", filter.failure_type)
            .with("failure_code", filter.failure_code)
            .with("retrying", filter.retrying.then_some(true))
            .with("tag", filter.tag.map(|(name, value)| format!("{name}={value}")))
            .with("queue", filter.queue)
            .with("from", filter.started_since.map(Timestamp::as_millis))
            .with("failed_from", filter.failed_since.map(Timestamp::as_millis));
        let after = after.map(|after| after.to_string());
        let found = self.list_behind("list instances", list, after, limit).await?;
        Ok(found.into_iter().map(wire::Instance::row).collect())
    }

    pub(in crate::operator) async fn list(
        &self,
        filter: InstanceFilter,
    ) -> Result<Vec<InstanceRow>> {
        let (after, limit) = (filter.after, filter.most());
        let runs = RunFilter {
            status: filter.status,
            workflow: filter.workflow,
            tag: filter.tag,
            retrying: filter.retrying,
            started_since: filter.since,
            ..RunFilter::default()
        };
        self.runs(runs, after, limit).await
    }

    /// The instance that has this id now, without its argument.
    async fn row(&self, what: &str, id: &str) -> Result<Option<InstanceRow>> {
        let ask = Ask::get("instances").with("id", Some(id));
        let found: wire::Page<wire::Instance> = self.ask(what, ask).await?;
        Ok(found.items.into_iter().next().map(wire::Instance::row))
    }

    /// The same, which must be there.
    async fn there(&self, what: &str, id: &str) -> Result<InstanceRow> {
        self.row(what, id).await?.ok_or_else(|| Error::no_instance(what))
    }

    pub(in crate::operator) async fn describe(&self, id: &str) -> Result<Option<Description>> {
        let what = format!("describe {id}");
        let Some(row) = self.row(&what, id).await? else { return Ok(None) };
        match self.described(&what, row.uid).await {
            // It was deleted in between.
            Err(error) if error.is_unknown() => Ok(None),
            found => found.map(Some),
        }
    }

    pub(in crate::operator) async fn describe_uid(&self, uid: Uid) -> Result<Description> {
        self.described(&format!("describe instance {uid}"), uid).await
    }

    async fn described(&self, what: &str, uid: Uid) -> Result<Description> {
        let text: Box<RawValue> = self.ask(what, Ask::get(format!("instances/{uid}"))).await?;
        let unreadable = |error| Error::told(Code::C6, format!("{what}: {error}"));
        let instance = serde_json::from_str(text.get()).map_err(unreadable)?;
        let mut found: wire::Described = serde_json::from_str(text.get()).map_err(unreadable)?;
        found.input = self.whole(what, found.input).await?;
        if let Some(result) = found.result.take() {
            found.result = Some(self.whole(what, result).await?);
        }
        if let Some(failure) = found.failure.take() {
            found.failure = Some(self.whole(what, failure).await?);
        }
        Ok(found.of(instance))
    }

    pub(in crate::operator) async fn find_whole(&self, id: &str) -> Result<Option<InstanceRow>> {
        let what = format!("find {id}");
        let Some(mut row) = self.row(&what, id).await? else { return Ok(None) };
        let ask = Ask::get(format!("instances/{}/argument", row.uid));
        let Some(argument) = self.find::<Box<RawValue>>(&what, ask).await? else { return Ok(None) };
        row.input = Payload::from_text(argument.get());
        Ok(Some(row))
    }

    pub(in crate::operator) async fn events(
        &self,
        uid: Uid,
        run: Option<u32>,
    ) -> Result<Vec<Event>> {
        let what = format!("read the history of instance {uid}");
        let page = async |after: Option<String>| {
            let ask = Ask::get(format!("instances/{uid}/export"));
            self.ask::<wire::Exported>(&what, ask.with("run", run).with("after", after)).await
        };
        let wire::Exported { mut history, mut cursor } = page(None).await?;
        while cursor.is_some() {
            let next = page(cursor).await?;
            history.goes_on(next.history);
            cursor = next.cursor;
        }
        history.events().map_err(|why| Error::told(Code::C6, format!("{what}: {why}")))
    }

    pub(in crate::operator) async fn attempts(
        &self,
        uid: Uid,
        run: Option<u32>,
    ) -> Result<Vec<AttemptRow>> {
        let what = format!("read the attempts of instance {uid}");
        let list = Ask::get(format!("instances/{uid}/attempts")).with("run", run);
        let more = |list: Ask, cursor: &str| list.with("after", Some(cursor));
        let found = self.pages(&what, list.clone(), more, list, usize::MAX).await?;
        Ok(found.into_iter().map(wire::Attempt::row).collect())
    }

    pub(in crate::operator) async fn actions(
        &self,
        uid: Uid,
        run: Option<u32>,
    ) -> Result<Vec<ActionRow>> {
        let what = format!("read what was done to instance {uid}");
        let ask = Ask::get(format!("instances/{uid}/actions")).with("run", run);
        let found: wire::Page<wire::Action> = self.ask(&what, ask).await?;
        // The number of the run is told by nobody who looks at actions of the current one.
        let key = RunKey { uid, run: run.unwrap_or(1) };
        Ok(found.items.into_iter().filter_map(|action| action.row(key)).collect())
    }

    pub(in crate::operator) async fn export(&self, id: &str) -> Result<Option<Export>> {
        let Some(row) = self.row(&format!("export {id}"), id).await? else { return Ok(None) };
        let mut runs = Vec::new();
        for run in 1..=row.run {
            let events = self.events(row.uid, Some(run)).await?;
            if !events.is_empty() {
                runs.push(ExportedRun { run, events });
            }
        }
        Ok(Some(Export { instance: row.id, uid: row.uid, runs }))
    }

    pub(in crate::operator) async fn outcome(&self, uid: Uid) -> Result<Outcome> {
        let what = format!("wait for the outcome of instance {uid}");
        loop {
            let ask = Ask::get(format!("instances/{uid}/result")).with("wait_ms", Some(WAIT_MS));
            match self.ask::<wire::Ended>(&what, ask).await {
                Ok(ended) => {
                    if let Some(outcome) = ended.outcome() {
                        return Ok(outcome);
                    }
                }
                Err(error) if error.is_transient() => tokio::time::sleep(AGAIN).await,
                Err(error) => return Err(error),
            }
        }
    }
}

/// The statuses of a filter, in one text.
fn statuses(status: &[Status]) -> Option<String> {
    let names: Vec<&str> = status.iter().map(|status| status.name()).collect();
    (!names.is_empty()).then(|| names.join(","))
}

impl Server {
    pub(in crate::operator) async fn start(&self, new: NewInstance<'_>) -> Result<()> {
        #[derive(serde::Serialize)]
        struct Body<'a> {
            id: &'a str,
            workflow: &'a str,
            input: Box<RawValue>,
            #[serde(skip_serializing_if = "Option::is_none")]
            queue: Option<&'a str>,
            by: String,
        }
        let NewInstance { id, workflow, argument, queue } = new;
        let body = Body { id, workflow, input: raw(argument), queue, by: os_user() };
        let what = format!("start {id}");
        self.ask(&what, Ask::post("instances", &body)).await.map(|_: Value| ())
    }

    pub(in crate::operator) async fn signal(
        &self,
        id: &str,
        name: &str,
        value: &Value,
    ) -> Result<()> {
        let what = format!("signal {name} to {id}");
        given(&what, "the name", name)?;
        given(&what, "the id", id)?;
        let row = self.there(&what, id).await?;
        let body = signed(Who::default(), json!({ "value": value }));
        let path = format!("instances/{}/signals/{}", row.uid, encoded(name));
        let sent = self.ask(&what, Ask::post(path, &body)).await;
        sent.map(|_: wire::Done| ()).map_err(about(&row))
    }

    /// Cancels or terminates an instance.
    pub(in crate::operator) async fn end(&self, verb: &str, id: &str, reason: &str) -> Result<()> {
        let what = format!("{verb} {id}");
        given(&what, "the id", id)?;
        let row = self.there(&what, id).await?;
        let body = signed(Who { reason: Some(reason), ..Who::default() }, Value::Null);
        let path = format!("instances/{}/actions/{verb}", row.uid);
        let ended = self.ask(&what, Ask::post(path, &body)).await;
        ended.map(|_: wire::Done| ()).map_err(about(&row))
    }

    pub(in crate::operator) async fn delete(&self, id: &str) -> Result<()> {
        let what = format!("delete {id}");
        let row = self.there(&what, id).await?;
        let ask = signed_ask(Ask::delete(format!("instances/{}", row.uid)), Who::default());
        self.ask(&what, ask).await.map(|_: wire::Done| ()).map_err(about(&row))
    }

    /// Deletes them one by one, page by page: no request takes long, whatever there is.
    pub(in crate::operator) async fn delete_closed(&self, filter: ClosedFilter) -> Result<u64> {
        let before = filter.older_than.map(|time| self.now().saturating_sub(time));
        let is_old = |row: &InstanceRow| {
            row.closed_at.is_some_and(|at| before.is_none_or(|before| at < before))
        };
        let closed = Status::ALL.into_iter().filter(|status| status.is_closed());
        let status = match filter.status.is_empty() {
            true => closed.collect(),
            false => filter.status,
        };
        let runs = RunFilter {
            status,
            workflow: filter.workflow,
            tag: filter.tag,
            ..RunFilter::default()
        };
        let (mut deleted, mut after) = (0, None);
        loop {
            let page = self.runs(runs.clone(), after, PAGE).await?;
            after = page.last().map(InstanceCursor::of);
            let is_last = page.len() < PAGE;
            let mut left = page.into_iter().filter(is_old);
            let mut going = JoinSet::new();
            loop {
                while going.len() < AT_ONCE
                    && let Some(row) = left.next()
                {
                    let server = self.clone();
                    going.spawn(async move { server.gone(row).await });
                }
                match going.join_next().await {
                    Some(gone) => {
                        deleted += gone.map_err(|error| Error::told(Code::C6, error))??;
                    }
                    None => break,
                }
            }
            if is_last {
                return Ok(deleted);
            }
        }
    }

    /// Deletes one, unless somebody was faster: how many are gone by that.
    async fn gone(&self, row: InstanceRow) -> Result<u64> {
        let what = format!("delete {}", row.id);
        let ask = signed_ask(Ask::delete(format!("instances/{}", row.uid)), Who::default());
        match self.ask::<wire::Done>(&what, ask).await {
            Ok(_) => Ok(1),
            Err(error) if error.is_unknown() || error.is_open() => Ok(0),
            Err(error) => Err(about(&row)(error)),
        }
    }

    pub(in crate::operator) async fn act(
        &self,
        on: &On,
        action: &Action,
        who: Who<'_>,
    ) -> Result<Acted> {
        let verb = action.name().replace('_', "-");
        let verb = verb.strip_suffix("-run").unwrap_or(&verb);
        let (what, row, path) = match on {
            On::Key(key) => {
                (format!("{verb} call {key}"), None, format!("calls/{}", name_of(*key)))
            }
            On::Call { id, call } => {
                let what = format!("{verb} {call} of {id}");
                let row = self.there(&what, id).await?;
                let path = format!("instances/{}/calls/{}", row.uid, encoded(call));
                (what, Some(row), path)
            }
            On::Run(id) => {
                let what = format!("{verb} {id}");
                let row = self.there(&what, id).await?;
                let path = format!("instances/{}", row.uid);
                (what, Some(row), path)
            }
        };
        let key = checked_key(&what, who.request_id)?;
        let body = signed(who, fields(action));
        let ask = match action {
            Action::SetPolicy { .. } => Ask::put(format!("{path}/policy"), &body),
            _ => Ask::post(format!("{path}/actions/{verb}"), &body),
        };
        let acted = ask::act(&self.http, &what, ask.key(key)).await;
        match &row {
            Some(row) => acted.map_err(about(row)),
            None => acted,
        }
    }
}
