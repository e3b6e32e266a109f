//! The table of what operators can do to a call, cell by cell, and the test that fails when a cell
//! is not as the table says.
//!
//! A line at the margin is a cell: the verb, where the call stands, and what follows. Below it
//! stand its tests, by file and name; a file without a folder is among the tests of the engine,
//! which run in memory and on PostgreSQL. Every cell has a test that stops the engine before and
//! after each commit: one that asks for a crash, by itself or through a function of its file. What
//! is beside the table has one too, but for a few that say why not (`WITHOUT_A_CRASH`). Where
//! another node is needed at a bad moment, the test is one of a node alone.

use std::collections::{BTreeMap, BTreeSet};

use resurgam_watchdog::test;

use crate::semantics::{tests_in, text_of};

const VERBS: [&str; 6] = ["retry", "pause", "resume", "complete", "fail", "set-policy"];

const STANDINGS: [&str; 9] = [
    "waits",
    "gated",
    "unregistered",
    "runs here",
    "runs elsewhere",
    "in transaction",
    "settling",
    "paused",
    "ended",
];

const CELLS: &str = "
retry | waits | due now
    operators.rs a_call_that_waits_is_retried_at_once
    operators.rs a_retry_with_a_reset_counts_failures_from_0
    operators.rs only_a_reset_gives_a_call_all_its_attempts_again
retry | gated | first in line, the gate stays as it is
    levers.rs a_call_that_its_gate_holds_back_is_acted_on_once_whatever_crashes
    gates.rs a_retry_puts_a_gated_call_first_in_line
retry | unregistered | refused
    levers.rs a_call_that_no_worker_knows_is_acted_on_once_whatever_crashes
    operators.rs a_call_that_no_worker_knows_waits_and_can_be_paused_or_ended
retry | runs here | refused
    operators.rs a_running_attempt_is_not_retried
retry | runs elsewhere | refused
    queues.rs what_is_asked_of_calls_that_run_elsewhere_is_done_once_when_their_holder_dies
    worker/src/alone/actions.rs a_call_that_another_node_takes_first_runs_when_somebody_acts_on_it
retry | in transaction | refused
    transactions.rs an_operator_and_a_transaction_end_a_call_once_whatever_crashes
    worker/src/alone/actions.rs while_its_transaction_is_with_the_store_a_call_runs_for_everybody_else
    transactions.rs what_an_operator_asks_for_while_the_store_decides_about_a_call_ends_it_no_second_time
retry | settling | refused
    levers.rs a_call_that_is_ending_can_only_be_completed_whatever_crashes
retry | paused | refused: resume it
    operators.rs a_paused_call_is_resumed_and_not_retried
retry | ended | refused, with the outcome
    levers.rs a_call_that_has_ended_is_left_alone_and_its_outcome_told_whatever_crashes
    operators.rs a_call_that_is_over_or_was_never_made_is_refused_with_what_became_of_it
pause | waits | paused
    operators.rs a_call_that_waits_is_paused_until_it_is_resumed
    worker/src/alone/actions.rs a_call_that_others_may_run_is_claimed_before_somebody_acts_on_it
pause | gated | paused
    levers.rs a_call_that_its_gate_holds_back_is_acted_on_once_whatever_crashes
    gates.rs what_operators_do_to_a_call_that_its_gate_holds_back
pause | unregistered | paused
    levers.rs a_call_that_no_worker_knows_is_acted_on_once_whatever_crashes
pause | runs here | the attempt goes on, a failure that can be retried pauses the call
    operators.rs a_pause_lets_the_attempt_that_runs_complete_the_call
    operators.rs a_pause_takes_hold_when_the_attempt_that_runs_fails
    operators.rs a_terminal_failure_ends_a_call_that_was_to_pause
pause | runs elsewhere | the same
    queues.rs what_is_asked_of_calls_that_run_elsewhere_is_done_once_when_their_holder_dies
    worker/src/alone/actions.rs a_call_that_another_node_takes_first_runs_when_somebody_acts_on_it
pause | in transaction | the same
    transactions.rs an_operator_and_a_transaction_end_a_call_once_whatever_crashes
    worker/src/alone/actions.rs a_call_that_was_to_pause_is_paused_when_its_transaction_fails_unless_that_was_taken_back
    worker/src/alone/actions.rs while_its_transaction_is_with_the_store_a_call_runs_for_everybody_else
    transactions.rs what_an_operator_asks_for_while_the_store_decides_about_a_call_ends_it_no_second_time
pause | settling | refused
    levers.rs a_call_that_is_ending_can_only_be_completed_whatever_crashes
pause | paused | unchanged
    operators.rs a_paused_call_stays_paused
pause | ended | refused, with the outcome
    levers.rs a_call_that_has_ended_is_left_alone_and_its_outcome_told_whatever_crashes
    operators.rs a_call_that_is_over_or_was_never_made_is_refused_with_what_became_of_it
resume | waits | refused
    operators.rs what_is_not_paused_cannot_be_resumed
resume | gated | refused
    levers.rs a_call_that_its_gate_holds_back_is_acted_on_once_whatever_crashes
    gates.rs what_operators_do_to_a_call_that_its_gate_holds_back
resume | unregistered | refused
    levers.rs a_call_that_no_worker_knows_is_acted_on_once_whatever_crashes
resume | runs here | takes back a pause that was asked for
    levers.rs a_pause_that_was_asked_for_is_taken_back_whatever_crashes
    operators.rs a_pause_that_was_asked_for_is_taken_back
    operators.rs a_running_attempt_that_nobody_paused_cannot_be_resumed
resume | runs elsewhere | the same
    queues.rs what_is_asked_of_calls_that_run_elsewhere_is_done_once_when_their_holder_dies
    worker/src/alone/actions.rs a_pause_of_a_call_that_runs_elsewhere_is_taken_back
    worker/src/alone/actions.rs a_call_that_runs_elsewhere_fails_by_hand_and_follows_another_policy
resume | in transaction | the same
    transactions.rs an_operator_and_a_transaction_end_a_call_once_whatever_crashes
    worker/src/alone/actions.rs a_call_that_was_to_pause_is_paused_when_its_transaction_fails_unless_that_was_taken_back
    worker/src/alone/actions.rs while_its_transaction_is_with_the_store_a_call_runs_for_everybody_else
    transactions.rs what_an_operator_asks_for_while_the_store_decides_about_a_call_ends_it_no_second_time
resume | settling | refused
    levers.rs a_call_that_is_ending_can_only_be_completed_whatever_crashes
resume | paused | back to its due time if that is ahead, else now
    operators.rs a_resumed_call_goes_on_at_its_due_time
    operators.rs a_call_that_ran_out_of_attempts_waits_for_an_operator_and_begins_again_from_0
    operators.rs what_retrying_stopped_is_resumed_with_a_reset_only
resume | ended | refused, with the outcome
    levers.rs a_call_that_has_ended_is_left_alone_and_its_outcome_told_whatever_crashes
    operators.rs a_call_that_is_over_or_was_never_made_is_refused_with_what_became_of_it
complete | waits | ends
    operators.rs a_call_that_waits_is_completed_with_a_value
    operators.rs a_value_that_the_workflow_could_not_read_is_refused
complete | gated | ends
    levers.rs a_call_that_its_gate_holds_back_is_acted_on_once_whatever_crashes
    gates.rs what_operators_do_to_a_call_that_its_gate_holds_back
complete | unregistered | ends, unchecked
    levers.rs a_call_that_no_worker_knows_is_acted_on_once_whatever_crashes
    operators.rs a_call_that_no_worker_knows_waits_and_can_be_paused_or_ended
complete | runs here | ends, and the attempt is told
    operators.rs a_call_that_runs_is_completed_and_its_attempt_is_told
    operators.rs the_attempt_of_a_call_that_is_ended_by_hand_is_told
complete | runs elsewhere | ends after its claim is taken away
    queues.rs what_is_asked_of_calls_that_run_elsewhere_is_done_once_when_their_holder_dies
    queues.rs a_call_that_runs_elsewhere_is_completed_by_hand_and_its_attempt_is_told
    worker/src/alone/actions.rs a_call_that_runs_elsewhere_is_ended_after_its_claim_is_taken_away
    worker/src/alone/actions.rs a_call_whose_attempt_elsewhere_has_ended_it_is_not_ended_by_hand
complete | in transaction | held until the store has decided, then refused if it completed
    transactions.rs an_operator_and_a_transaction_end_a_call_once_whatever_crashes
    worker/src/alone/actions.rs while_its_transaction_is_with_the_store_a_call_is_not_ended_by_hand
    transactions.rs what_an_operator_asks_for_while_the_store_decides_about_a_call_ends_it_no_second_time
complete | settling | recorded after the cancellation, and undone
    operators.rs a_call_that_was_given_up_can_be_completed_and_is_undone
    levers.rs a_call_that_is_ending_can_only_be_completed_whatever_crashes
complete | paused | ends
    operators.rs a_paused_call_ends_with_a_value
complete | ended | refused, with the outcome
    levers.rs a_call_that_has_ended_is_left_alone_and_its_outcome_told_whatever_crashes
    operators.rs a_call_that_is_over_or_was_never_made_is_refused_with_what_became_of_it
fail | waits | ends
    operators.rs a_call_that_waits_fails_with_the_last_failure_as_the_cause
fail | gated | ends
    levers.rs a_call_that_its_gate_holds_back_is_acted_on_once_whatever_crashes
    gates.rs what_operators_do_to_a_call_that_its_gate_holds_back
fail | unregistered | ends
    levers.rs a_call_that_no_worker_knows_is_acted_on_once_whatever_crashes
fail | runs here | ends, and the attempt is told
    operators.rs a_call_that_runs_fails_and_its_attempt_is_told
fail | runs elsewhere | ends after its claim is taken away
    queues.rs what_is_asked_of_calls_that_run_elsewhere_is_done_once_when_their_holder_dies
    worker/src/alone/actions.rs a_call_that_runs_elsewhere_fails_by_hand_and_follows_another_policy
fail | in transaction | held until the store has decided, then refused if it completed
    transactions.rs an_operator_and_a_transaction_end_a_call_once_whatever_crashes
    worker/src/alone/actions.rs while_its_transaction_is_with_the_store_a_call_is_not_ended_by_hand
    transactions.rs what_an_operator_asks_for_while_the_store_decides_about_a_call_ends_it_no_second_time
fail | settling | refused
    operators.rs a_call_that_was_given_up_is_left_to_end
    levers.rs a_call_that_is_ending_can_only_be_completed_whatever_crashes
fail | paused | ends
    operators.rs a_paused_call_ends_with_a_failure
fail | ended | refused, with the outcome
    levers.rs a_call_that_has_ended_is_left_alone_and_its_outcome_told_whatever_crashes
    operators.rs a_call_that_is_over_or_was_never_made_is_refused_with_what_became_of_it
set-policy | waits | decided again
    levers.rs another_policy_changes_nothing_about_a_call_that_waits_after_a_snooze_or_a_loss
    operators.rs another_policy_decides_again_about_a_call_in_its_backoff
    operators.rs another_policy_can_end_a_call_in_its_backoff
set-policy | gated | decided again
    levers.rs a_call_that_its_gate_holds_back_is_acted_on_once_whatever_crashes
    levers.rs another_policy_decides_again_about_a_gated_call_from_its_last_failure
    gates.rs what_operators_do_to_a_call_that_its_gate_holds_back
set-policy | unregistered | next decision
    levers.rs a_call_that_no_worker_knows_is_acted_on_once_whatever_crashes
set-policy | runs here | next decision
    operators.rs another_policy_decides_about_the_attempt_that_runs
set-policy | runs elsewhere | next decision
    queues.rs what_is_asked_of_calls_that_run_elsewhere_is_done_once_when_their_holder_dies
    worker/src/alone/actions.rs a_call_that_runs_elsewhere_fails_by_hand_and_follows_another_policy
set-policy | in transaction | next decision
    transactions.rs an_operator_and_a_transaction_end_a_call_once_whatever_crashes
    worker/src/alone/actions.rs while_its_transaction_is_with_the_store_a_call_runs_for_everybody_else
    transactions.rs what_an_operator_asks_for_while_the_store_decides_about_a_call_ends_it_no_second_time
set-policy | settling | refused
    operators.rs a_policy_is_not_set_while_a_call_is_settling
    levers.rs a_call_that_is_ending_can_only_be_completed_whatever_crashes
set-policy | paused | at resume
    levers.rs another_policy_for_a_paused_call_decides_when_it_is_resumed_whatever_crashes
    operators.rs another_policy_for_a_paused_call_holds_when_it_is_resumed
    operators.rs a_policy_that_was_set_while_a_call_was_paused_decides_after_it_is_resumed
set-policy | ended | refused, with the outcome
    levers.rs a_call_that_has_ended_is_left_alone_and_its_outcome_told_whatever_crashes
    operators.rs a_call_that_is_over_or_was_never_made_is_refused_with_what_became_of_it
";

/// What else section by section must hold, with its tests.
const BESIDE: &str = "
an action is carried out once, and a repeated request gets the first answer
    operators.rs a_repeated_request_gets_the_first_answer
a call whose row cannot be read gets a clear answer and holds up nobody
    levers.rs an_action_on_a_call_whose_row_cannot_be_read_is_answered_and_holds_up_no_other
a blocked run changes nothing about its calls
    operators.rs a_call_of_a_blocked_run_can_be_acted_on
what the store refuses is told
    worker/src/alone/actions.rs who_asks_for_what_the_store_refuses_hears_of_it
clocks stand still while a call is paused
    operators.rs the_clock_of_a_call_stands_still_while_it_is_paused_unless_somebody_lets_it_run
a run is paused and resumed
    pausing.rs a_paused_run_keeps_its_messages_until_it_is_resumed
a closed instance is restarted
    resetting.rs a_closed_instance_begins_again_with_its_input_options_and_tags
a run is reset
    resetting.rs a_run_goes_on_from_before_its_last_failure
    resetting.rs signals_kv_status_and_timers_are_as_they_were
    resetting.rs children_that_were_open_report_to_the_new_run
    resetting.rs a_run_that_has_begun_to_undo_is_reset_only_by_who_says_so
    resetting.rs the_current_run_of_a_chain_is_reset
    resetting.rs a_paused_run_is_reset_and_goes_on
    reset_of_everything.rs a_run_with_everything_behind_it_goes_on_from_an_earlier_place
    reset_of_everything.rs a_run_with_everything_behind_it_is_undone_once_when_it_fails_after_a_reset
many runs are acted on once each
    bulk.rs each_run_is_reset_once_whatever_crashes
    bulk.rs each_call_is_retried_once_whatever_crashes
a call that gives up ends its run whatever the code would do
    giving_up.rs a_call_in_shielded_code_ends_the_run_all_the_same
    giving_up.rs a_run_that_is_undone_so_is_tried_again_by_the_policy_of_its_workflow
an id that is taken over meanwhile is neither reset nor restarted
    worker/src/alone/actions.rs a_closed_instance_whose_id_is_taken_over_meanwhile_does_not_go_on
a policy for all calls of an activity
    policies.rs open_calls_in_their_backoff_and_later_ones_follow_it_until_it_is_removed
    policies.rs a_call_that_is_made_right_after_a_restart_follows_what_is_set_from_the_first_failure
a dead letter is redriven in its run, with the same key and a fresh budget
    redriving.rs a_redriven_call_has_the_key_that_it_had_and_a_fresh_budget
    redriving.rs calls_that_were_made_together_with_a_redriven_one_keep_their_keys
a redrive is refused unless the call failed the current run
    redriving.rs a_call_that_did_not_fail_its_run_is_not_redriven
    redriving.rs a_run_that_cannot_be_reset_is_not_redriven
letters and groups are decided about once each
    levers.rs letters_are_discarded_once_whatever_crashes
    levers.rs a_group_of_letters_is_redriven_once_each_whatever_crashes
    bulk_letters.rs letters_are_discarded_page_by_page_once_each_whatever_crashes
    bulk_letters.rs letters_are_redriven_in_their_runs_once_each_whatever_crashes
    bulk_letters.rs letters_are_redriven_as_new_once_each_whatever_crashes
    levers.rs a_group_of_paused_calls_is_resumed_or_failed_once_each_whatever_crashes
    dead_letters.rs a_redrive_and_its_letter_are_one_commit
";

/// What needs no crash, and why.
const WITHOUT_A_CRASH: [(&str, &str); 7] = [
    (
        "an action is carried out once, and a repeated request gets the first answer",
        "every test that crashes asks again",
    ),
    (
        "a call whose row cannot be read gets a clear answer and holds up nobody",
        "nothing is written but the answer",
    ),
    ("a blocked run changes nothing about its calls", "the actions are those of the table"),
    ("what the store refuses is told", "the store is the fault"),
    (
        "clocks stand still while a call is paused",
        "the times are in the row that the actions write",
    ),
    (
        "an id that is taken over meanwhile is neither reset nor restarted",
        "the race is played step by step",
    ),
    (
        "a redrive is refused unless the call failed the current run",
        "nothing is written but the answer",
    ),
];

/// The lines at the margin, each with its tests by file and name.
fn listed(text: &'static str) -> Vec<(&'static str, Vec<(&'static str, &'static str)>)> {
    let mut listed: Vec<(&str, Vec<(&str, &str)>)> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("    ") {
            Some(test) => listed.last_mut().unwrap().1.push(test.split_once(' ').unwrap()),
            None => listed.push((line, Vec::new())),
        }
    }
    listed
}

#[test]
fn every_cell_is_listed_once() {
    let mut missing: BTreeSet<(&str, &str)> =
        VERBS.iter().flat_map(|verb| STANDINGS.iter().map(move |at| (*verb, *at))).collect();
    for (line, _) in listed(CELLS) {
        let mut parts = line.split(" | ");
        let cell = (parts.next().unwrap(), parts.next().unwrap());
        assert!(missing.remove(&cell), "{line}: there is no such cell, or it is listed before");
        assert!(parts.next().is_some(), "{line}: what follows is missing");
    }
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_cell_has_its_test() {
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    for (line, tests) in listed(CELLS).into_iter().chain(listed(BESIDE)) {
        assert!(!tests.is_empty(), "{line}: it has no test");
        for (file, test) in tests {
            let text = texts.entry(file).or_insert_with(|| text_of(file));
            assert!(tests_in(text).contains_key(test), "{line}: no test {test} in {file}");
        }
    }
}

/// The bodies of functions at the margin of a file, by name.
fn functions_in(text: &str) -> BTreeMap<&str, &str> {
    let mut functions = BTreeMap::new();
    let mut rest = text;
    while let Some(at) = rest.find("fn ") {
        let begins_line = rest[..at].rsplit('\n').next().is_some_and(|before| {
            before.split_whitespace().all(|word| word.starts_with("pub") || word == "async")
                && !before.starts_with(' ')
        });
        rest = &rest[at + 3..];
        if !begins_line {
            continue;
        }
        let name =
            rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
        let end = rest.find("\n}").unwrap_or(rest.len());
        functions.insert(name, &rest[..end]);
    }
    functions
}

/// The functions of a file in which the engine is stopped at a commit, or a node dies: by
/// themselves or by a function of the file that they call.
fn crashing(text: &str) -> BTreeSet<&str> {
    let functions = functions_in(text);
    let mut crashing: BTreeSet<&str> = BTreeSet::new();
    loop {
        let calls = |body: &str| {
            let is_called = |name: &&str| {
                body.match_indices(&format!("{name}(")).any(|(at, _)| {
                    !body[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '.')
                })
            };
            crashing.iter().any(is_called)
        };
        let crashes =
            |body: &str| body.contains("faults().crash(") || body.contains("drop(office)");
        let found: BTreeSet<&str> = functions
            .iter()
            .filter(|(_, body)| crashes(body) || calls(body))
            .map(|(name, _)| *name)
            .collect();
        if found.len() == crashing.len() {
            return crashing;
        }
        crashing = found;
    }
}

#[test]
fn a_function_crashes_by_itself_or_through_another_one() {
    let text = "async fn check() {\n    app.faults().crash(crash);\n}\n\nfn other() {\n    recheck();\n}\n\nasync fn a_test() {\n    check(1).await;\n}\n";
    assert_eq!(crashing(text), BTreeSet::from(["check", "a_test"]));
}

#[test]
fn every_cell_has_a_test_that_crashes() {
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    let mut without = Vec::new();
    for (line, tests) in listed(CELLS).into_iter().chain(listed(BESIDE)) {
        let mut crashes = |(file, test): &(&'static str, &'static str)| {
            let text = texts.entry(*file).or_insert_with(|| text_of(file));
            crashing(text).contains(test)
        };
        if !tests.iter().any(&mut crashes) {
            without.push(line);
        }
    }
    let expected: Vec<&str> = WITHOUT_A_CRASH.iter().map(|(line, _)| *line).collect();
    assert_eq!(without, expected, "without a test that crashes");
}
