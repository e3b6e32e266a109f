//! Setting policies for all calls of an activity: what a handle can be asked.
//!
//! What is set is a row that every node reads (`node/housekeeping/policy_overrides.rs`). It needs
//! nobody who works, and holds for whoever does from then on.

use resurgam_core::action::ActionAnswer;
use resurgam_core::retry::Timeouts;
use resurgam_store::rows::PolicyOverride;

use crate::actions::Acted;
use crate::error::{Error, Result};
use crate::handle::{Handle, given};
use crate::node::Request;

impl Handle {
    /// Policies that are set for activities, and those that were removed.
    pub async fn policy_overrides(&self) -> Result<Vec<PolicyOverride>> {
        let _busy = self.busy();
        let found = self.store().policy_overrides().await;
        found.map_err(|error| Error::store("list the policies of activities", error))
    }

    /// Sets a policy for all calls of an activity, or removes it, and answers with what that
    /// changes.
    pub async fn set_policy(&self, row: PolicyOverride) -> Result<Acted> {
        let activity = row.activity.clone();
        let what = match row.policy {
            Some(_) => format!("set the policy of {activity}"),
            None => format!("unset the policy of {activity}"),
        };
        given(&what, "the name of the activity", &activity)?;
        if let Some(why) = refuses(&row) {
            return Err(Error::invalid(format!("{what}: {why}")));
        }
        let found = self.policy_overrides().await?;
        let before = found.into_iter().find(|found| found.activity == activity);
        let before = before.and_then(|found| found.policy);
        let is_same = before == row.policy;
        let answer = match &row.policy {
            Some(_) if is_same => {
                ActionAnswer::refused(format!("calls of {activity} follow this policy already"))
            }
            None if is_same => ActionAnswer::refused(format!("no policy is set for {activity}")),
            Some(_) => {
                ActionAnswer::done(format!("calls of {activity} follow this policy from now on"))
            }
            None => ActionAnswer::done(format!(
                "calls of {activity} follow their own policies from now on"
            )),
        };
        if is_same {
            return Ok(Acted::Answered(answer));
        }
        let row = Box::new(row);
        self.ask(&what, |reply| Request::SetPolicy { row, reply }).await?;
        let _busy = self.busy();
        let owner = self.store().owner().await.map_err(|error| Error::store(&what, error))?;
        Ok(match owner {
            Some(_) => Acted::Answered(answer),
            None => Acted::Stored,
        })
    }
}

/// Why a policy cannot be one for all calls of an activity.
fn refuses(row: &PolicyOverride) -> Option<String> {
    row.policy.as_ref()?;
    let Some(policy) = row.retry_policy() else {
        return Some("the policy cannot be read".to_string());
    };
    if policy.timeouts != Timeouts::default() {
        return Some(
            "it names timeouts, which stay those of the calls; leave them out".to_string(),
        );
    }
    policy.check().err().map(|error| error.to_string())
}
