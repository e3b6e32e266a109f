//! What a policy amounts to, case by case: the numbers behind `explain` in all its forms.
//!
//! A policy treats some failures differently from others. Each treatment is a case with a
//! schedule of its own; rules that change nothing about the schedule share one.

use std::fmt::Write as _;
use std::time::Duration;

use resurgam_core::retry::forecast::{Forecast, Quantiles, Row, forecast};
use resurgam_core::retry::schedule::{Terms, spread};
use resurgam_core::retry::{CheckedPolicy, DeadlineRule, Exhausted, Jitter, Limit, Matched};

use crate::words::{self, about};

/// How many cases are followed. Each takes a thousand sampled runs.
const FOLLOWED: usize = 20;

/// What a policy amounts to.
#[derive(Debug)]
pub struct Outlook {
    /// Case by case.
    pub cases: Vec<Case>,
    /// How many cases more there are than are followed.
    pub left_out: usize,
}

/// The failures that share a schedule, and that schedule.
#[derive(Debug)]
pub struct Case {
    /// What of the policy holds for them.
    pub matched: Vec<Matched>,
    /// Which failures these are.
    pub title: String,
    /// What happens to them, in a sentence.
    pub sentence: String,
    /// How long the waits are, in words.
    pub waits: String,
    /// Its numbers.
    pub forecast: Forecast,
}

impl Outlook {
    /// Follows every case of a policy, with attempts that take `attempt_time` each.
    pub fn of(policy: &CheckedPolicy, attempt_time: Duration) -> Self {
        let groups = groups(policy);
        let followed = groups.iter().take(FOLLOWED);
        let cases = followed.map(|matched| Case::of(policy, matched, attempt_time)).collect();
        Outlook { cases, left_out: groups.len().saturating_sub(FOLLOWED) }
    }

    /// The policy in a sentence.
    pub fn sentence(&self) -> String {
        match self.cases.as_slice() {
            [] => "One attempt: nothing is retried.".into(),
            [only] => only.sentence.clone(),
            _ => {
                let cases = self.cases.len() + self.left_out;
                format!("{cases} schedules, which share one count of attempts.")
            }
        }
    }
}

/// The cases of a policy, those with the same terms together.
fn groups(policy: &CheckedPolicy) -> Vec<Vec<Matched>> {
    let catch_all = policy.rules.iter().any(|rule| rule.on.is_catch_all());
    let reachable = |matched: &Matched| !(catch_all && *matched == Matched::Nothing);
    let mut groups: Vec<Vec<Matched>> = Vec::new();
    for matched in policy.retried().into_iter().filter(reachable) {
        let terms = policy.terms_for(matched);
        let same = |group: &&mut Vec<Matched>| {
            same_terms(&policy.terms_for(group[0]), &terms)
                && exhausted(policy, group[0]) == exhausted(policy, matched)
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(matched),
            None => groups.push(vec![matched]),
        }
    }
    groups
}

fn same_terms(one: &Terms<'_>, other: &Terms<'_>) -> bool {
    one.max_attempts == other.max_attempts
        && one.backoff == other.backoff
        && one.max_delay == other.max_delay
        && one.jitter == other.jitter
}

/// What happens when a case gives up.
fn exhausted(policy: &CheckedPolicy, matched: Matched) -> &Exhausted {
    let rule = matched.index().and_then(|index| policy.rules.get(index));
    rule.and_then(|rule| rule.on_exhausted.as_ref()).unwrap_or(&policy.on_exhausted)
}

impl Case {
    fn of(policy: &CheckedPolicy, matched: &[Matched], attempt_time: Duration) -> Self {
        let forecast = refined(policy, matched[0], attempt_time);
        let exhausted = exhausted(policy, matched[0]);
        let sentence = match forecast.max_attempts {
            Limit::Attempts(max) if max.get() == 1 => {
                format!("One attempt, no retries{}.", words::outcome(exhausted))
            }
            limit => sentence(&forecast, attempt_time, &words::end(policy, limit, exhausted)),
        };
        Case {
            matched: matched.to_vec(),
            title: title(policy, matched),
            sentence,
            waits: words::waits(&policy.terms_for(matched[0])),
            forecast,
        }
    }

    /// How many attempts half of the runs make, where that is fewer than allowed.
    fn typical(forecast: &Forecast) -> Option<usize> {
        let reached = 1 + forecast.rows.iter().filter(|row| row.reached >= 0.5).count();
        match forecast.max_attempts {
            _ if forecast.more => None,
            Limit::Attempts(max) if u32::try_from(reached) == Ok(max.get()) => None,
            _ => Some(reached),
        }
    }
}

fn title(policy: &CheckedPolicy, matched: &[Matched]) -> String {
    const NAMED: usize = 4;
    let named = matched.iter().take(NAMED).map(|matched| words::case(policy, *matched));
    let mut title = named.collect::<Vec<_>>().join("; ");
    if matched.len() > NAMED {
        let _ = write!(title, "; and {} rules more", matched.len() - NAMED);
    }
    title
}

/// The forecast, with what is known exactly in place of samples.
fn refined(policy: &CheckedPolicy, matched: Matched, attempt_time: Duration) -> Forecast {
    let mut forecast = forecast(policy, matched, attempt_time);
    put_exact_delays(policy, &policy.terms_for(matched), &mut forecast.rows);
    if let Some(first) = forecast.rows.first_mut() {
        first.start = later(first.delay, attempt_time);
    }
    if let [only] = forecast.rows.as_slice()
        && only.reached >= 1.0
    {
        forecast.outage = forecast.outage.map(|_| only.start);
    }
    forecast
}

/// Puts the quantiles of a delay as they are in place of sampled ones. Where a deadline shortens
/// some runs, or a delay depends on the one before, there are only the samples.
fn put_exact_delays(policy: &CheckedPolicy, terms: &Terms<'_>, rows: &mut [Row]) {
    let clipped = policy.max_elapsed.is_some() && policy.deadline == DeadlineRule::Clip;
    if clipped || terms.jitter == Jitter::Decorrelated {
        return;
    }
    for row in rows.iter_mut().take_while(|row| row.reached >= 1.0) {
        let delays = spread(terms, row.attempt.saturating_sub(1), None);
        let [min, p5, p50, p95, max] = [0.0, 0.05, 0.5, 0.95, 1.0].map(|u| delays.at(u));
        row.delay = Quantiles { min, p5, p50, p95, max };
    }
}

fn later(times: Quantiles, by: Duration) -> Quantiles {
    let Quantiles { min, p5, p50, p95, max } = times;
    let [min, p5, p50, p95, max] = [min, p5, p50, p95, max].map(|time| time.saturating_add(by));
    Quantiles { min, p5, p50, p95, max }
}

fn sentence(forecast: &Forecast, attempt_time: Duration, end: &str) -> String {
    let waiting = waiting(forecast, attempt_time);
    let attempts = match (forecast.max_attempts, Case::typical(forecast)) {
        (Limit::Attempts(max), None) => format!("Up to {max} attempts"),
        (Limit::Attempts(max), Some(typical)) => {
            format!("Up to {max} attempts, typically {typical},")
        }
        (Limit::Unlimited, None) => "Unlimited attempts".into(),
        (Limit::Unlimited, Some(typical)) => format!("Unlimited attempts, typically {typical},"),
    };
    format!("{attempts}{waiting}; {end}.")
}

/// How long the waits take together.
fn waiting(forecast: &Forecast, attempt_time: Duration) -> String {
    let usual = forecast.rows.iter().filter(|row| row.reached >= 0.5).count();
    let working = attempt_time.saturating_mul(u32::try_from(usual).unwrap_or(u32::MAX));
    match (forecast.outage, forecast.rows.last()) {
        (Some(outage), _) if outage.p95 <= working => " without waiting".into(),
        (Some(outage), _) => {
            let usual = about(outage.p50.saturating_sub(working));
            let backoff = about(forecast.waiting);
            if usual.to_string() == backoff.to_string() {
                return format!(" over about {backoff} of waiting");
            }
            format!(" over about {backoff} of waiting, usually {usual} with jitter")
        }
        (None, Some(last)) => {
            let waited = about(last.start.p50.saturating_sub(working));
            format!(", the first {} over about {waited} of waiting", last.attempt)
        }
        (None, None) => String::new(),
    }
}
