//! What follows when retrying stops: the call fails, or something else that the policy wants.
//!
//! | why retrying stopped                                       | what the policy may want        |
//! |------------------------------------------------------------|---------------------------------|
//! | `max_attempts`, `max_elapsed`, `queue_timeout`, `worker_lost` | everything                   |
//! | `total_timeout`, `terminal`, `non_retryable`, `no_rule`    | a dead letter, or that it fails |
//! | `cancelled`, `pruned`, `operator`                          | nothing: the call fails         |
//!
//! A rule, or `otherwise`, that says `pause` or `dead_letter` stands for itself, whatever
//! `on_exhausted` says. An activity that others fall back to only fails
//! ([`CheckedPolicy::only_fails`]): a chain of fallbacks would have no end that a reader of one
//! policy could see.

use super::check::CheckedPolicy;
use super::decide::{Reason, StopWhy};
use super::policy::{Exhausted, Verdict};

impl CheckedPolicy {
    /// What the policy wants to follow now that retrying has stopped.
    ///
    /// ```
    /// use resurgam_core::retry::{Exhausted, Reason, RetryPolicy, StopWhy};
    ///
    /// let pause = Exhausted::Pause { wait: None };
    /// let policy = RetryPolicy::DEFAULT.on_exhausted(pause.clone()).check().unwrap();
    /// assert_eq!(policy.on_stop(&StopWhy::new(Reason::MaxAttempts, 5)), pause);
    /// assert_eq!(policy.on_stop(&StopWhy::new(Reason::Terminal, 1)), Exhausted::Fail);
    /// ```
    pub fn on_stop(&self, why: &StopWhy) -> Exhausted {
        let rule = why.rule.and_then(|index| self.rules.get(index));
        let verdict = match why.reason {
            Reason::NonRetryable => rule.map(|rule| rule.then),
            Reason::NoRule => Some(self.otherwise),
            _ => None,
        };
        match verdict {
            Some(Verdict::Pause) => return Exhausted::Pause { wait: None },
            Some(Verdict::DeadLetter) => return Exhausted::DeadLetter,
            Some(Verdict::Retry | Verdict::Fail) | None => {}
        }
        let wanted = rule.and_then(|rule| rule.on_exhausted.as_ref());
        let wanted = wanted.unwrap_or(&self.on_exhausted);
        match why.reason {
            Reason::MaxAttempts
            | Reason::MaxElapsed
            | Reason::QueueTimeout
            | Reason::WorkerLost => wanted.clone(),
            Reason::TotalTimeout | Reason::Terminal | Reason::NonRetryable | Reason::NoRule
                if *wanted == Exhausted::DeadLetter =>
            {
                Exhausted::DeadLetter
            }
            _ => Exhausted::Fail,
        }
    }

    /// True when it wants nothing but that the call fails, however retrying stops.
    pub fn only_fails(&self) -> bool {
        let mut outcomes = self.outcomes();
        let verdicts = self.rules.iter().map(|rule| rule.then);
        let mut verdicts = verdicts.chain([self.otherwise]);
        outcomes.all(|outcome| *outcome == Exhausted::Fail)
            && verdicts.all(|verdict| matches!(verdict, Verdict::Retry | Verdict::Fail))
    }

    /// True when it wants the run to be undone.
    pub fn compensates(&self) -> bool {
        self.outcomes().any(|outcome| *outcome == Exhausted::Compensate)
    }

    /// The activities that it falls back to.
    ///
    /// ```
    /// use resurgam_core::retry::{Exhausted, RetryPolicy};
    ///
    /// let later = Exhausted::FallbackActivity("charge_later".into());
    /// let policy = RetryPolicy::DEFAULT.on_exhausted(later).check().unwrap();
    /// assert_eq!(policy.fallbacks().collect::<Vec<_>>(), ["charge_later"]);
    /// ```
    pub fn fallbacks(&self) -> impl Iterator<Item = &str> {
        self.outcomes().filter_map(|outcome| match outcome {
            Exhausted::FallbackActivity(name) => Some(name.as_ref()),
            _ => None,
        })
    }

    /// Why no activity with this policy can be one that others fall back to.
    pub fn refuses_fallback(&self, name: &str) -> Option<String> {
        (!self.only_fails()).then(|| {
            format!(
                "it falls back to {name}, whose own policy does not simply fail when retrying \
                 stops; give {name} a policy with on_exhausted \"fail\", in its rules too"
            )
        })
    }

    /// What may follow when attempts run out.
    fn outcomes(&self) -> impl Iterator<Item = &Exhausted> {
        let of_rules = self.rules.iter().filter_map(|rule| rule.on_exhausted.as_ref());
        of_rules.chain([&self.on_exhausted])
    }
}
