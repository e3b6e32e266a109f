//! Actions on many, which are jobs that go on by themselves.

use resurgam::{Action, BulkJob, Error, Result};
use resurgam_core::Code;
use serde_json::{Map, Value, json};

use super::{AGAIN, Server, fields, signed, signed_ask};
use crate::operator::acts::{Many, Pace, Preview, Those, Who};
use crate::operator::ask::{self, Ask, checked_key, encoded};
use crate::operator::wire;

/// How many that were refused stand in a list of actions on many.
const LISTED: usize = 10;

impl Server {
    /// The way to begin them, and what is asked for.
    fn many(many: Many, pace: Pace, who: Who<'_>) -> (String, Map<String, Value>) {
        let Many { those, action } = many;
        let mut body = signed(who, fields(&action));
        let (path, more) = match those {
            Those::Calls(filter) => {
                let calls = json!({
                    "ids": filter.ids,
                    "workflow": filter.workflow,
                    "activity": filter.activity,
                    "status": filter.status.map(|status| status.name()),
                    "failure_type": filter.failure_type,
                    "failure_code": filter.failure_code,
                    "tag": filter.tag,
                    "queue": filter.queue,
                    "started_since_ms": filter.started_since,
                    "failed_since_ms": filter.failed_since,
                    "paused_since_ms": filter.paused_since,
                    "fingerprint": filter.fingerprint,
                });
                ("bulk".to_string(), json!({ "calls": calls, "action": action.name() }))
            }
            Those::Runs(filter) => {
                let runs = json!({
                    "ids": filter.ids,
                    "workflow": filter.workflow,
                    "status": filter.status.iter().map(|status| status.name()).collect::<Vec<_>>(),
                    "activity": filter.activity,
                    "failure_type": filter.failure_type,
                    "failure_code": filter.failure_code,
                    "retrying": filter.retrying,
                    "tag": filter.tag,
                    "queue": filter.queue,
                    "started_since_ms": filter.started_since,
                    "failed_since_ms": filter.failed_since,
                });
                // Of runs, an action is called as it is of a single one.
                if let Some(calls) = body.remove("calls") {
                    body.insert("with_calls".to_string(), calls);
                }
                let action = action.name().trim_end_matches("_run");
                ("bulk".to_string(), json!({ "runs": runs, "action": action }))
            }
            Those::Letters(filter) => {
                let verb = if action == Action::Discard { "discard" } else { "redrive" };
                let letters = json!({
                    "fingerprint": filter.fingerprint,
                    "activity": filter.activity,
                    "ids": filter.ids,
                    "workflow": filter.workflow,
                    "queue": filter.queue,
                    "failure_type": filter.failure_type,
                    "failure_code": filter.failure_code,
                    "since_ms": filter.since,
                });
                (format!("dead-letters/actions/{verb}"), letters)
            }
            Those::Paused(filter) => {
                body.remove("reset");
                let paused = json!({
                    "fingerprint": filter.fingerprint,
                    "activity": filter.activity,
                    "since_ms": filter.since,
                });
                (format!("paused/actions/{}", action.name()), paused)
            }
        };
        if let Value::Object(more) = more {
            body.extend(more);
        }
        let spread = u64::try_from(pace.spread.as_millis()).unwrap_or(u64::MAX);
        let how = [
            // The command line knows by itself that somebody has chosen.
            ("all", Value::Bool(true)),
            ("limit", pace.limit.into()),
            ("first", pace.first.into()),
            ("expect_count", pace.expect.into()),
            ("spread_ms", (spread > 0).then_some(spread).into()),
        ];
        body.extend(how.map(|(name, value)| (name.to_string(), value)));
        (path, body)
    }

    pub(in crate::operator) async fn preview(&self, many: Many, pace: Pace) -> Result<Preview> {
        let (path, mut body) = Server::many(many, pace, Who::default());
        body.insert("dry_run".to_string(), true.into());
        let found = self.ask("look what matches", Ask::post(path, &body)).await?;
        let wire::Preview { count, of, first, told } = found;
        Ok(Preview { count, of, listed: first.into_iter().zip(told).collect() })
    }

    pub(in crate::operator) async fn begin(
        &self,
        many: Many,
        pace: Pace,
        who: Who<'_>,
    ) -> Result<BulkJob> {
        let what = "start a bulk job";
        let key = checked_key(what, who.request_id)?;
        let (path, body) = Server::many(many, pace, who);
        job(what, self.ask(what, Ask::post(path, &body).key(key)).await?)
    }

    pub(in crate::operator) async fn bulk_job(&self, id: &str) -> Result<Option<BulkJob>> {
        let what = format!("read bulk job {id}");
        let found = self.find(&what, Ask::get(format!("bulk/{}", encoded(id)))).await?;
        found.map(|found| job(&what, found)).transpose()
    }

    pub(in crate::operator) async fn bulk_jobs(
        &self,
        after: Option<&BulkJob>,
        limit: usize,
    ) -> Result<Vec<BulkJob>> {
        let (what, list) = ("list bulk jobs", Ask::get("bulk"));
        let first = list.clone().with("cursor", after.map(|job| &job.id));
        let more = |list: Ask, cursor: &str| list.with("cursor", Some(cursor));
        let found: Vec<wire::Job> = self.pages(what, first, more, list, limit).await?;
        let mut jobs = Vec::new();
        for listed in found {
            // A list has only the first of those that were refused.
            let has_more = listed.listed.len() == LISTED && listed.refused > LISTED as u64;
            let whole = if has_more { self.bulk_job(&listed.id).await? } else { None };
            jobs.push(match whole {
                Some(job) => job,
                None => job(what, listed)?,
            });
        }
        Ok(jobs)
    }

    pub(in crate::operator) async fn stop_bulk(&self, id: &str, by: &str) -> Result<bool> {
        let what = format!("stop bulk job {id}");
        let who = Who { by: Some(by), ..Who::default() };
        let ask = signed_ask(Ask::delete(format!("bulk/{}", encoded(id))), who);
        Ok(ask::act(&self.http, &what, ask).await?.changed())
    }

    pub(in crate::operator) async fn bulk_over(&self, id: &str) -> Result<BulkJob> {
        let missing =
            || Error::told(Code::E2, format!("wait for bulk job {id}: there is no job of this id"));
        loop {
            let stands = async {
                let job = self.bulk_job(id).await?.ok_or_else(missing)?;
                let is_last = job.state().is_over() || !self.has_worker().await?;
                Ok::<_, Error>((job, is_last))
            };
            match stands.await {
                Ok((job, true)) => return Ok(job),
                Ok((_, false)) => {}
                Err(error) if error.is_transient() => {}
                Err(error) => return Err(error),
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}

fn job(what: &str, found: wire::Job) -> Result<BulkJob> {
    found.job().map_err(|why| Error::told(Code::C6, format!("{what}: {why}")))
}
