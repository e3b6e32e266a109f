//! What waits for a decision: dead letters and paused calls.

use resurgam::{
    Acted, CallGroup, CallKey, DeadLetter, DeadLetterFilter, PausedCall, PausedFilter, Result,
    Timestamp,
};
use serde_json::json;

use super::{Server, signed};
use crate::operator::acts::{Again, Who};
use crate::operator::ask::{self, Ask, checked_key};
use crate::operator::wire;
use crate::work::name_of;

impl Server {
    fn letters(filter: &DeadLetterFilter) -> Ask {
        let ids = (!filter.ids.is_empty()).then(|| json!(filter.ids).to_string());
        Ask::get("dead-letters")
            .with("state", Some(filter.state.name()))
            .with("fingerprint", filter.fingerprint.as_ref())
            .with("activity", filter.activity.as_ref())
            .with("ids", ids)
            .with("workflow", filter.workflow.as_ref())
            .with("queue", filter.queue.as_ref())
            .with("failure_type", filter.failure_type.as_ref())
            .with("failure_code", filter.failure_code.as_ref())
            .with("from", filter.since.map(Timestamp::as_millis))
    }

    pub(in crate::operator) async fn dead_letters(
        &self,
        filter: DeadLetterFilter,
    ) -> Result<Vec<DeadLetter>> {
        let (list, limit) = (Server::letters(&filter), filter.most());
        let after = filter.after.map(|after| after.to_string());
        let found = self.list_behind("list dead letters", list, after, limit).await?;
        Ok(found.into_iter().map(wire::Letter::letter).collect())
    }

    pub(in crate::operator) async fn dead_letter_groups(
        &self,
        filter: DeadLetterFilter,
    ) -> Result<Vec<CallGroup>> {
        self.groups("list dead letters", Server::letters(&filter)).await
    }

    async fn groups(&self, what: &str, list: Ask) -> Result<Vec<CallGroup>> {
        let found: wire::Page<wire::Group> =
            self.ask(what, list.with("group", Some("fingerprint"))).await?;
        Ok(found.items.into_iter().map(wire::Group::group).collect())
    }

    pub(in crate::operator) async fn dead_letter(
        &self,
        call: CallKey,
    ) -> Result<Option<DeadLetter>> {
        let what = format!("read the dead letter of {call}");
        let ask = Ask::get(format!("dead-letters/{}", name_of(call)));
        let Some(mut found) = self.find::<wire::Letter>(&what, ask).await? else {
            return Ok(None);
        };
        if let Some(input) = found.input.take() {
            found.input = Some(self.whole(&what, input).await?);
        }
        Ok(Some(found.letter()))
    }

    pub(in crate::operator) async fn redrive(
        &self,
        call: CallKey,
        again: Again,
        who: Who<'_>,
    ) -> Result<Acted> {
        let what = format!("redrive call {call}");
        let key = checked_key(&what, who.request_id)?;
        let fields = json!({ "as_new": again.as_new, "new_key": again.new_key });
        let path = format!("dead-letters/{}/actions/redrive", name_of(call));
        let ask = Ask::post(path, &signed(who, fields)).key(key);
        ask::act(&self.http, &what, ask).await
    }

    pub(in crate::operator) async fn discard(&self, call: CallKey, who: Who<'_>) -> Result<Acted> {
        let what = format!("discard the dead letter of {call}");
        let path = format!("dead-letters/{}/actions/discard", name_of(call));
        ask::act(&self.http, &what, Ask::post(path, &signed(who, json!({})))).await
    }

    fn paused(filter: &PausedFilter) -> Ask {
        Ask::get("paused")
            .with("fingerprint", filter.fingerprint.as_ref())
            .with("activity", filter.activity.as_ref())
            .with("from", filter.since.map(Timestamp::as_millis))
    }

    pub(in crate::operator) async fn paused_calls(
        &self,
        filter: PausedFilter,
    ) -> Result<Vec<PausedCall>> {
        let (list, limit) = (Server::paused(&filter), filter.most());
        let after = filter.after.map(|after| after.to_string());
        let found = self.list_behind("list paused calls", list, after, limit).await?;
        Ok(found.into_iter().map(wire::Paused::call).collect())
    }

    pub(in crate::operator) async fn paused_groups(
        &self,
        filter: PausedFilter,
    ) -> Result<Vec<CallGroup>> {
        self.groups("list paused calls", Server::paused(&filter)).await
    }
}
