//! What a bulk job does next, page by page.

use resurgam_watchdog::test;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn retry(expected: u64, spread: Duration) -> BulkJob {
    let target = BulkTarget::Calls(CallFilter::default());
    let action = Action::Retry { reset: false, due: None };
    let mut job = BulkJob::new("j".to_string(), target, action, at(0));
    job.options = BulkOptions { expected, spread, seed: 7, ..BulkOptions::default() };
    job
}

fn calls(from: u64, count: u64) -> Vec<ToAsk> {
    let call = |number| RunKey::first(Uid(u128::from(number))).call(Seq(2));
    let ask = |number| ToAsk { call: call(number), failures: 1, is_exhausted: false, again: None };
    (from..from + count).map(ask).collect()
}

fn due_times(messages: &[MessageRow]) -> Vec<i64> {
    let due = |row: &MessageRow| match &row.body {
        Message::Action { request, .. } => match request.action {
            Action::Retry { due, .. } => due.map(Timestamp::as_millis),
            _ => None,
        },
        _ => None,
    };
    messages.iter().filter_map(due).collect()
}

/// Everything is answered, and changed.
fn answer(job: &mut BulkJob) {
    let done = AskedAnswer::Answered(ActionAnswer::done("retried"));
    assert!(job.answered(vec![done; job.page.len()]));
}

#[test]
fn what_is_stored_is_read_back() {
    let mut job = retry(3, SECOND);
    let filter = RunFilter { status: vec![Status::Failed], ..RunFilter::default() };
    job.asks(calls(1, 2), Some("there".to_string()), at(0));
    assert_eq!(BulkJob::read(&job.to_row()), Ok(job.clone()));
    job.target = BulkTarget::Runs(filter);
    job.closed_at = Some(at(9));
    assert_eq!(BulkJob::read(&job.to_row()), Ok(job.clone()));
    let damaged = BulkRow { counts: "[".to_string(), ..job.to_row() };
    assert!(BulkJob::read(&damaged).unwrap_err().starts_with("its counts: "));
}

#[test]
fn due_times_are_drawn_evenly_from_the_seed() {
    let mut job = retry(4, 40 * SECOND);
    let Next::Ask(1) = job.next(at(0), 100) else { panic!("the first is due, the others not") };
    let mut due = due_times(&job.asks(calls(1, 1), Some("1".to_string()), at(0)));
    for (number, now) in [(2, 9_750), (3, 19_750), (4, 29_750)] {
        answer(&mut job);
        assert_eq!(job.next(at(now - 1), 100), Next::Wait(at(now)));
        assert_eq!(job.next(at(now), 100), Next::Ask(1));
        due.extend(due_times(&job.asks(calls(number, 1), Some("1".to_string()), at(0))));
    }
    for (place, due) in (0..).zip(&due) {
        assert!((place * 10_000..(place + 1) * 10_000).contains(due), "{due}");
    }
    let mut again = retry(4, 40 * SECOND);
    again.next(at(0), 100);
    assert_eq!(due_times(&again.asks(calls(1, 1), None, at(0))), due[..1]);
}

#[test]
fn a_job_that_was_late_does_not_make_up_for_it_in_a_moment() {
    let mut job = retry(100, 100 * SECOND);
    assert_eq!(job.next(at(0), 10), Next::Ask(1));
    job.asks(calls(1, 1), Some("1".to_string()), at(0));
    answer(&mut job);
    // Nobody worked for an hour.
    assert_eq!(job.next(at(3_600_000), 10), Next::Ask(1));
    job.asks(calls(2, 1), Some("1".to_string()), at(0));
    answer(&mut job);
    assert_eq!(job.next(at(3_600_000), 10), Next::Wait(at(3_600_750)));
}

#[test]
fn a_page_is_counted_when_all_of_it_is_answered() {
    let mut job = retry(3, Duration::ZERO);
    assert_eq!(job.next(at(0), 2), Next::Ask(2));
    job.asks(calls(1, 2), Some("1".to_string()), at(0));
    assert_eq!(job.next(at(0), 2), Next::Look);
    let refused = AskedAnswer::Answered(ActionAnswer::refused("it runs"));
    assert!(!job.answered(vec![AskedAnswer::Waits, refused.clone()]));
    assert!(job.answered(vec![AskedAnswer::Gone, refused]));
    assert_eq!((job.counts.changed, job.counts.refused, job.counts.listed.len()), (0, 2, 2));
    job.stopped_by = Some("ana".to_string());
    assert_eq!(job.next(at(0), 2), Next::End);
}

#[test]
fn the_list_of_what_was_refused_is_bounded() {
    let mut job = retry(1_500, Duration::ZERO);
    for page in 0..15 {
        job.asks(calls(page * 100, 100), Some("1".to_string()), at(0));
        assert!(job.answered(vec![AskedAnswer::Gone; 100]));
    }
    assert_eq!((job.counts.refused, job.counts.listed.len()), (1_500, LISTED));
}
