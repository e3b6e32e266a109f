//! Policies that operators set for all calls of an activity.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use resurgam_core::retry::RetryPolicy;
use resurgam_store::rows::PolicyOverride;
use resurgam_worker::{Acted, Result};

use crate::Client;
use crate::act::os_user;

/// A policy that is about to be set for all calls of an activity, or to be removed; awaiting it
/// does so, and answers with what that changes.
///
/// ```
/// use resurgam::prelude::*;
/// use resurgam::retry::Jitter;
/// use resurgam::{PolicyOverride, SetPolicy};
/// use resurgam_testing::TestApp;
/// use std::time::Duration;
///
/// #[activity(retry = RetryPolicy::fixed(Duration::from_secs(3_600)).unlimited())]
/// async fn charge(cents: u64) -> Result<u64, Failure> {
///     Err(Failure::of_type("BankDown", "no answer"))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), resurgam::Error> {
/// let app = TestApp::builder().activity(charge).start().await;
/// app.submit("charge-1", charge(700)).await?;
/// app.advance(Duration::from_secs(60)).await; // the first attempt has failed
///
/// // It waits for an hour. Now it waits for two minutes, of which one has passed.
/// let sooner = RetryPolicy::fixed(Duration::from_secs(120)).jitter(Jitter::None).unlimited();
/// let setting: SetPolicy = app.client().set_policy("charge", sooner.clone());
/// let set = setting.by("ana").reason("the bank is back").await?;
/// assert_eq!(set.to_string(), "calls of charge follow this policy from now on");
/// app.advance(Duration::from_secs(90)).await;
/// assert_eq!(app.attempts(charge), 2);
///
/// let listed: Vec<PolicyOverride> = app.client().policies().await?;
/// assert_eq!((listed[0].activity.as_str(), listed[0].by.as_str()), ("charge", "ana"));
/// assert_eq!(listed[0].retry_policy(), Some(sooner));
/// assert!(app.client().unset_policy("charge").by("ana").await?.changed());
/// assert!(app.client().policies().await?.is_empty());
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is done until this is awaited"]
#[derive(Clone, Debug)]
pub struct SetPolicy {
    client: Client,
    activity: String,
    policy: Option<RetryPolicy>,
    by: Option<String>,
    reason: Option<String>,
}

impl Client {
    /// Has another policy decide about all calls of an activity, those that are open and those to
    /// come, until it is removed. It comes before the policies of calls, activities and the app,
    /// and after one that was set for a single call. Timeouts stay as they are, and calls that undo
    /// others are left alone. Open calls that wait after a failure are decided about again.
    pub fn set_policy(
        &self,
        activity: impl Into<String>,
        policy: impl Into<RetryPolicy>,
    ) -> SetPolicy {
        self.policy_of(activity.into(), Some(policy.into()))
    }

    /// Removes the policy that is set for all calls of an activity: they follow their own again,
    /// and those that wait after a failure are decided about again.
    pub fn unset_policy(&self, activity: impl Into<String>) -> SetPolicy {
        self.policy_of(activity.into(), None)
    }

    /// The policies that are set for activities, by their names.
    pub async fn policies(&self) -> Result<Vec<PolicyOverride>> {
        let mut found = self.handle().policy_overrides().await?;
        found.retain(|row| row.policy.is_some());
        Ok(found)
    }

    fn policy_of(&self, activity: String, policy: Option<RetryPolicy>) -> SetPolicy {
        SetPolicy { client: self.clone(), activity, policy, by: None, reason: None }
    }
}

impl SetPolicy {
    /// Who does it; the user of the operating system, unless set.
    pub fn by(mut self, by: impl Into<String>) -> Self {
        self.by = Some(by.into());
        self
    }

    /// Why.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }
}

impl IntoFuture for SetPolicy {
    type Output = Result<Acted>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Acted>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let SetPolicy { client, activity, policy, by, reason } = self;
            let handle = client.handle();
            let row = PolicyOverride {
                activity,
                policy: policy.map(|policy| policy.to_stored()),
                by: by.unwrap_or_else(os_user),
                reason,
                at: handle.now(),
                revision: 0,
            };
            handle.set_policy(row).await
        })
    }
}
