//! Gates, policies of activities, and schedules.

use std::time::Duration;

use resurgam::retry::RetryPolicy;
use resurgam::schedule::ScheduleDescription;
use resurgam::{
    Acted, Action, Error, GateStatus, Hold, HoldKind, Payload, PolicyOverride, Result, Timestamp,
    os_user,
};
use resurgam_core::Code;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Server, fields, signed, signed_ask};
use crate::operator::acts::{NewSchedule, OnGate, Who, raw};
use crate::operator::ask::{self, Ask, encoded};
use crate::operator::wire;

impl Server {
    pub(in crate::operator) async fn gates(&self) -> Result<(Vec<GateStatus>, Vec<Hold>)> {
        let found: wire::Gates = self.ask("look at gates", Ask::get("gates")).await?;
        let gates = found.items.into_iter().map(wire::Gate::status).collect();
        Ok((gates, found.paused.into_iter().map(wire::PausedKind::hold).collect()))
    }

    pub(in crate::operator) async fn gate(&self, key: &str) -> Result<Option<GateStatus>> {
        let what = format!("look at gate {key}");
        let found = self.find(&what, Ask::get(format!("gates/{}", encoded(key)))).await?;
        Ok(found.map(wire::Gate::status))
    }

    pub(in crate::operator) async fn on_gate(&self, does: OnGate, who: Who<'_>) -> Result<Acted> {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let lasting = |time: Option<Duration>| json!({ "for_ms": time.map(millis) });
        let hand = |verb: &str, key: &str, fields: Value| {
            let path = format!("gates/{}/actions/{verb}", encoded(key));
            (format!("{verb} gate {key}"), Ask::post(path, &signed(who, fields)))
        };
        let kind = |verb: &str, kind: HoldKind, name: &str| {
            let kinds = if kind == HoldKind::Queue { "queues" } else { "activities" };
            let path = format!("{kinds}/{}/actions/{verb}", encoded(name));
            (format!("{verb} {} {name}", kind.name()), Ask::post(path, &signed(who, json!({}))))
        };
        let (what, ask) = match &does {
            OnGate::Shut(key, time) => hand("shut", key, lasting(*time)),
            OnGate::Open(key, time) => hand("open", key, lasting(*time)),
            OnGate::Auto(key) => hand("auto", key, json!({})),
            OnGate::Set(key, settings) => {
                let body = signed(who, json!({ "settings": settings }));
                (format!("set gate {key}"), Ask::put(format!("gates/{}", encoded(key)), &body))
            }
            OnGate::Unset(key) => {
                let ask = Ask::delete(format!("gates/{}", encoded(key)));
                (format!("unset gate {key}"), signed_ask(ask, who))
            }
            OnGate::Pause(of, name) => kind("pause", *of, name),
            OnGate::Resume(of, name) => kind("resume", *of, name),
        };
        ask::act(&self.http, &what, ask).await
    }

    pub(in crate::operator) async fn policies(&self) -> Result<Vec<PolicyOverride>> {
        let what = "look at the policies of activities";
        let found: wire::Page<wire::SetPolicy> =
            self.ask(what, Ask::get("activities/policies")).await?;
        Ok(found.items.into_iter().map(wire::SetPolicy::row).collect())
    }

    pub(in crate::operator) async fn set_policy(
        &self,
        activity: &str,
        policy: Option<RetryPolicy>,
        who: Who<'_>,
    ) -> Result<Acted> {
        let path = format!("activities/{}/policy", encoded(activity));
        let what = format!("set the policy of {activity}");
        let ask = match policy {
            Some(policy) => {
                let stored = Action::SetPolicy { policy: policy.to_stored() };
                Ask::put(path, &signed(who, fields(&stored)))
            }
            None => signed_ask(Ask::delete(path), who),
        };
        ask::act(&self.http, &what, ask).await
    }

    pub(in crate::operator) async fn schedules(&self) -> Result<Vec<ScheduleDescription>> {
        let what = "look at schedules";
        let found: wire::Page<wire::Schedule> = self.ask(what, Ask::get("schedules")).await?;
        Ok(found.items.into_iter().map(wire::Schedule::description).collect())
    }

    pub(in crate::operator) async fn schedule(
        &self,
        id: &str,
    ) -> Result<Option<ScheduleDescription>> {
        let what = format!("look at schedule {id}");
        let ask = Ask::get(format!("schedules/{}", encoded(id)));
        let Some(mut found) = self.find::<wire::Schedule>(&what, ask).await? else {
            return Ok(None);
        };
        found.input = self.whole(&what, found.input).await?;
        Ok(Some(found.description()))
    }

    pub(in crate::operator) async fn schedule_whole(
        &self,
        id: &str,
    ) -> Result<Option<ScheduleDescription>> {
        let what = format!("look at schedule {id}");
        let Some(mut found) = self.schedule(id).await? else { return Ok(None) };
        let ask = Ask::get(format!("schedules/{}/argument", encoded(id)));
        let Some(argument) = self.find::<Box<RawValue>>(&what, ask).await? else { return Ok(None) };
        found.input = Payload::from_text(argument.get());
        Ok(Some(found))
    }

    pub(in crate::operator) async fn put_schedule(&self, new: &NewSchedule) -> Result<()> {
        #[derive(serde::Serialize)]
        struct Body<'a> {
            workflow: &'a str,
            input: Box<RawValue>,
            schedule: Value,
            replace: bool,
            #[serde(skip_serializing_if = "Option::is_none")]
            queue: Option<&'a str>,
            by: String,
        }
        let id = &new.schedule.id;
        let what = format!("schedule {id}");
        // What cannot work is refused here, in the words that a database has for it.
        let checked = new.schedule.clone().check();
        checked.map_err(|error| Error::invalid(format!("{what}: {error}")))?;
        let mut schedule = serde_json::to_value(&new.schedule).unwrap_or_default();
        if let Value::Object(form) = &mut schedule {
            form.remove("id");
        }
        let body = Body {
            workflow: &new.workflow,
            input: raw(&new.argument),
            schedule,
            replace: new.replace,
            queue: new.queue.as_deref(),
            by: os_user(),
        };
        let path = format!("schedules/{}", encoded(id));
        self.ask(&what, Ask::put(path, &body)).await.map(|_: wire::Done| ())
    }

    /// Does something to a schedule, and tells what the server said about it.
    pub(in crate::operator) async fn on_schedule(&self, verb: &str, id: &str) -> Result<String> {
        self.schedule_action(verb, id, json!({})).await
    }

    async fn schedule_action(&self, verb: &str, id: &str, fields: Value) -> Result<String> {
        let path = format!("schedules/{}/actions/{verb}", encoded(id));
        let body = signed(Who::default(), fields);
        let done: wire::Done =
            self.ask(&format!("{verb} schedule {id}"), Ask::post(path, &body)).await?;
        Ok(done.answer)
    }

    pub(in crate::operator) async fn run_schedule(&self, id: &str) -> Result<String> {
        started(&self.on_schedule("run", id).await?)
    }

    pub(in crate::operator) async fn backfill(
        &self,
        id: &str,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<u64> {
        let fields = json!({ "from_ms": from, "to_ms": to });
        let told = started(&self.schedule_action("backfill", id, fields).await?)?;
        told.parse().map_err(|_| Error::told(Code::C6, format!("backfill {id}: {told:?}")))
    }

    pub(in crate::operator) async fn delete_schedule(&self, id: &str) -> Result<()> {
        let ask = signed_ask(Ask::delete(format!("schedules/{}", encoded(id))), Who::default());
        self.ask(&format!("delete schedule {id}"), ask).await.map(|_: wire::Done| ())
    }
}

/// What was started, as an answer says it.
fn started(answer: &str) -> Result<String> {
    let told = answer.strip_prefix("started ").map(str::to_string);
    told.ok_or_else(|| Error::told(Code::C6, format!("the server answered {answer:?}")))
}
