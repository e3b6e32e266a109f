//! Compares what the outside world saw with what the engine wrote down.
//!
//! The promise: no attempt begins after its call's completion was committed, and every attempt
//! that began is counted. So for each call the journal has every attempt up to the one that settled
//! it, once, and none after. One exception is allowed, and counted: an attempt that was lost or
//! interrupted may be missing, because its claim is durable before its first line runs.

use std::collections::HashMap;

use serde::Serialize;

use super::journal::Begin;
use super::records::{Call, How};

/// What a comparison found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Audit {
    /// Lines in the journal.
    pub(super) begun: usize,
    /// Attempts that the engine knows and that did not come as far as their line.
    pub(super) never_begun: usize,
    /// What does not fit; empty when the promise held.
    pub(super) problems: Vec<String>,
}

impl Audit {
    pub(super) fn of(journal: &[Result<Begin, String>], calls: &[Call]) -> Self {
        let mut audit = Audit { begun: journal.len(), ..Audit::default() };
        let known: HashMap<&str, &Call> = calls.iter().map(|call| (&*call.key, call)).collect();
        let mut begins: HashMap<(&str, u32), usize> = HashMap::new();
        for (line, begin) in (1..).zip(journal) {
            match begin {
                Ok(begin) => {
                    let times = begins.entry((&begin.key, begin.attempt)).or_default();
                    *times += 1;
                    let problem = misfit(begin, known.get(&*begin.key).copied(), *times);
                    audit.problems.extend(problem.map(|text| format!("line {line}: {text}")));
                }
                Err(text) => audit.problems.push(format!("line {line} cannot be read: {text:?}")),
            }
        }
        for call in calls {
            audit.check_record(call, |attempt| begins.contains_key(&(&*call.key, attempt)));
        }
        audit
    }

    /// Checks that a call is settled, that its attempts are counted without a gap, and that each
    /// has begun.
    fn check_record(&mut self, call: &Call, has_begun: impl Fn(u32) -> bool) {
        let Call { activity, instance, attempts, settled_by, .. } = call;
        let what = |attempt: u32| format!("attempt {attempt} of {activity} in {instance}");
        let Some(last) = *settled_by else {
            return self.problems.push(format!("{activity} in {instance} was never settled"));
        };
        for attempt in 1..=last {
            match attempts.get(&attempt).map(Vec::as_slice) {
                None => self.problems.push(format!("{} has no outcome", what(attempt))),
                Some([_]) if has_begun(attempt) => {}
                Some([how]) if how.may_not_have_begun() => self.never_begun += 1,
                Some([_]) => {
                    let text = "has an outcome and is not in the journal";
                    self.problems.push(format!("{} {text}", what(attempt)));
                }
                Some(twice) => {
                    let text = format!("has {} outcomes: {twice:?}", twice.len());
                    self.problems.push(format!("{} {text}", what(attempt)));
                }
            }
        }
    }
}

/// Why a line of the journal does not fit.
fn misfit(begin: &Begin, call: Option<&Call>, times: usize) -> Option<String> {
    let Begin { key, activity, attempt, instance } = begin;
    let what = format!("attempt {attempt} of {activity} in {instance} began");
    let Some(call) = call else {
        return Some(format!("{what}, and no history knows its call {key}"));
    };
    if (&call.activity, &call.instance) != (activity, instance) {
        return Some(format!("{what}; call {key} is {} in {}", call.activity, call.instance));
    }
    if times > 1 {
        return Some(format!("{what} again (time {times})"));
    }
    match call.settled_by {
        Some(last) if *attempt > last => {
            let how = match call.attempts.get(&last).map(Vec::as_slice) {
                Some([How::Completed]) => "completed",
                _ => "failed for good",
            };
            Some(format!("{what} although attempt {last} had {how}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;
    use std::collections::BTreeMap;

    use super::*;

    fn begin(attempt: u32) -> Result<Begin, String> {
        let [key, activity, instance] = ["k", "charge", "order-1"].map(String::from);
        Ok(Begin { key, activity, attempt, instance })
    }

    fn call(attempts: &[How]) -> Call {
        let [key, activity, instance] = ["k", "charge", "order-1"].map(String::from);
        let attempts: BTreeMap<u32, Vec<How>> =
            (1..).zip(attempts).map(|(number, how)| (number, vec![*how])).collect();
        let settled_by = attempts.keys().last().copied();
        Call { key, activity, instance, attempts, settled_by }
    }

    #[track_caller]
    fn check(journal: &[Result<Begin, String>], attempts: &[How], problems: &[&str]) {
        let audit = Audit::of(journal, &[call(attempts)]);
        assert_eq!(audit.problems, problems);
    }

    #[test]
    fn every_attempt_once_and_none_after_the_last_is_as_promised() {
        check(&[begin(1), begin(2)], &[How::Failed, How::Completed], &[]);
        check(&[begin(1), begin(2)], &[How::Failed, How::Failed], &[]);
    }

    #[test]
    fn an_attempt_that_was_lost_may_have_died_before_its_first_line() {
        let audit = Audit::of(&[begin(2)], &[call(&[How::Lost, How::Completed])]);
        assert_eq!((audit.begun, audit.never_begun, audit.problems.len()), (1, 1, 0));
    }

    #[test]
    fn an_attempt_that_failed_or_completed_must_have_begun() {
        let text = "attempt 1 of charge in order-1 has an outcome and is not in the journal";
        check(&[begin(2)], &[How::Failed, How::Completed], &[text]);
        check(&[], &[How::Completed], &[text]);
    }

    #[test]
    fn an_attempt_that_begins_twice_is_found() {
        let text = "line 2: attempt 1 of charge in order-1 began again (time 2)";
        check(&[begin(1), begin(1)], &[How::Completed], &[text]);
    }

    #[test]
    fn an_attempt_after_the_completion_is_found() {
        let text = "line 2: attempt 2 of charge in order-1 began although attempt 1 had completed";
        check(&[begin(1), begin(2)], &[How::Completed], &[text]);
    }

    #[test]
    fn an_attempt_that_nobody_counted_is_found() {
        let mut gap = call(&[How::Failed, How::Failed, How::Completed]);
        gap.attempts.remove(&2);
        let audit = Audit::of(&[begin(1), begin(2), begin(3)], &[gap]);
        assert_eq!(audit.problems, ["attempt 2 of charge in order-1 has no outcome"]);
    }

    #[test]
    fn a_call_that_no_history_knows_and_a_line_that_is_no_line_are_found() {
        let audit = Audit::of(&[begin(1), Err("{\"key".to_string())], &[]);
        assert_eq!(
            audit.problems,
            [
                "line 1: attempt 1 of charge in order-1 began, and no history knows its call k",
                "line 2 cannot be read: \"{\\\"key\"",
            ]
        );
    }
}
