//! What the engine promises about activities and workflows, clause by clause, and the test that
//! fails when a promise is broken.
//!
//! A line that begins at the margin is a promise; below it stand its tests, by file and name. A
//! file without a folder is among the tests of the engine. Tests here check that every promise has
//! a test and that each of them exists. Little is listed for graphs and PostgreSQL: they come with
//! their own crates.

use std::collections::{BTreeMap, BTreeSet};

use resurgam_watchdog::test;

const PROMISES: &str = "
## A call and its attempts

every change of a call is one commit
    counters.rs every_change_of_a_call_is_one_commit
    engine.rs a_workflow_of_five_activities_is_six_commits
an attempt is known by a random token
    counters.rs every_attempt_has_a_token_of_its_own
one that reports with another token is told clearly
    transactions.rs an_attempt_that_was_timed_out_is_told_that_it_lost_its_claim
    store-sqlite/tests/suite/transact.rs an_attempt_that_lost_its_claim_is_refused_before_its_code_runs
what comes after a timeout changes nothing
    timeouts.rs the_next_attempt_does_not_wait_for_a_plain_function_and_its_result_is_refused
    heartbeats.rs what_an_attempt_returns_after_it_was_silent_for_too_long_is_refused
what comes after a loss changes nothing
    counters.rs what_an_attempt_returns_after_its_process_was_taken_from_it_is_refused
what comes after a cancellation changes nothing
    duroxide_plan.rs a_result_that_comes_after_the_timeout_is_refused_and_a_replay_knows_nothing_of_it
    cancelling.rs a_call_without_compensation_is_given_up_at_once_and_its_late_result_changes_nothing

## Four counters

failures, losses, interruptions and snoozes each have a count
    counters.rs failures_losses_interruptions_and_snoozes_are_counted_apart
failures are bounded by max_attempts
    duroxide_plan.rs an_activity_that_always_fails_is_attempted_as_often_as_allowed
losses are not
    retries.rs an_attempt_that_died_with_its_process_is_run_again_and_does_not_count
interruptions are not, and are written down
    failures.rs a_graceful_stop_costs_no_attempt_elsewhere
snoozes are not, and are written down
    retries.rs a_snooze_is_no_failure_and_counts_for_nothing
rules have no counts of their own
    counters.rs all_rules_share_one_count_of_failures
a lost attempt is followed by another one shortly after
    retries.rs an_attempt_that_died_with_its_process_is_run_again_and_does_not_count
a loss leaves the policy's delays as they are
    counters.rs a_lost_attempt_changes_nothing_about_the_delays_of_the_policy
ten losses in a row are borne, the next one ends the call as WorkerLost
    retries.rs an_activity_that_kills_its_process_again_and_again_is_given_up
a heartbeat begins that row anew
    heartbeats.rs an_attempt_that_reports_and_dies_with_its_process_is_not_given_up
so does an attempt that ends in any other way
    counters.rs an_attempt_that_fails_in_between_begins_the_count_of_lost_ones_anew
    counters.rs a_graceful_stop_in_between_begins_the_count_of_lost_ones_anew
how many are borne can be set, and no rule is asked
    counters.rs rules_are_not_asked_about_attempts_that_are_lost
at most once: a loss ends the call
    retries.rs an_attempt_that_may_not_be_repeated_ends_its_call_when_its_process_dies
at most once: so does the loss of a claim, whether or not its code began
    counters.rs a_claim_that_is_lost_before_its_code_began_ends_a_call_that_may_not_be_repeated
at most once: an interruption ends the call
    failures.rs a_graceful_stop_is_a_failure_where_nothing_may_be_repeated
    slots.rs an_attempt_that_is_cut_short_may_have_done_something_and_is_recorded
a claim whose code never began is handed back by a stop
    slots.rs an_attempt_that_was_claimed_and_not_begun_is_handed_back_by_a_stop
the number of an attempt counts everything that began
    counters.rs an_attempt_has_the_number_of_everything_that_began_before_it
what the next decision needs is one column with a version
    counters.rs what_a_decision_needs_is_in_one_column_with_a_version
the failures so far are kept across restarts
    duroxide_plan.rs a_restart_in_the_middle_of_the_retries_goes_on_counting
so is the time of the scheduling
    peers.rs a_deadline_is_counted_across_restarts
so is the time of the first attempt
    counters.rs the_time_since_the_first_attempt_is_counted_across_restarts
so is the delay before
    counters.rs a_delay_that_follows_from_the_one_before_does_so_across_a_restart

## What an activity returns

a value
    first.rs a_workflow_calls_its_activities_one_after_another
    duroxide_plan.rs arguments_and_results_keep_their_types_over_retries
any error, which is retried
    outcomes.rs any_error_is_retried_and_terminal_ones_are_not_and_the_workflow_hears_all_of_it
its type is the one that was named
    retries.rs failures_of_a_type_that_is_never_retried_end_the_call
or that of a derive
    failures.rs a_variant_has_a_name_parents_and_causes
or the short name of the Rust type
    failures.rs an_error_of_rusts_has_the_same_type_the_first_time_and_on_replay
a terminal failure: never again
    retries.rs a_terminal_failure_ends_the_call_at_once
a delay that the other side asked for
    retries.rs the_other_side_may_ask_for_a_longer_delay_and_not_for_a_shorter_or_an_endless_one
a snooze, which is no failure
    retries.rs a_snooze_is_no_failure_and_counts_for_nothing
    failures.rs a_snoozed_attempt_is_counted_among_the_attempts_and_not_among_the_failures
a pruned branch, outside of graphs a terminal failure of that type
    retries.rs a_pruned_branch_is_a_terminal_failure_outside_of_graphs
a panic is caught, has its own kind and follows the policy
    retries.rs a_panic_is_a_failure_like_others
    retries.rs a_plain_function_is_retried_and_may_panic_too
a failure carries type, ancestors, code, message, details and causes
    failures.rs a_failure_is_whole_on_replay
a replay gets the same failure, with its attempts and the reason of its end
    retries.rs the_workflow_gets_the_whole_failure_and_the_same_one_on_replay
the workflow can have its own type back
    failures.rs a_workflow_gets_the_users_type_back_after_a_restart
    outcomes.rs a_workflow_can_turn_a_failure_back_into_its_own_type_also_on_replay

## Why it stopped

cancelled
    failures.rs a_call_that_was_cancelled_and_settles_says_so
terminal
    outcomes.rs any_error_is_retried_and_terminal_ones_are_not_and_the_workflow_hears_all_of_it
pruned
    failures.rs a_pruned_branch_says_so
non_retryable, no_rule, max_attempts, max_elapsed and total_timeout
    failures.rs every_end_says_why
queue_timeout
    timeouts.rs an_attempt_that_no_slot_is_free_for_ends_its_call_when_the_queue_timeout_passes
worker_lost
    failures.rs a_process_that_dies_is_a_failure_where_nothing_may_be_repeated
when the total timeout ends a call, its last failure is the cause
    retries.rs a_total_timeout_ends_a_call_with_its_last_failure_as_the_cause
    timeouts.rs the_total_timeout_ends_a_retry_that_waits_for_a_slot_and_its_failure_is_the_cause
so it is with the queue timeout
    timeouts.rs the_queue_clock_starts_when_the_attempt_became_due
a real failure, not a loss that came after it
    timeouts.rs when_time_ends_a_call_its_last_failure_is_the_cause_and_not_a_loss
looking ahead, a delay that does not fit ends the call at once
    retries.rs no_retry_begins_that_would_pass_the_time_a_policy_allows
so does one that would pass the total timeout
    duroxide_plan.rs a_call_ends_at_once_when_the_next_delay_would_pass_its_total_timeout
so does a snooze
    timeouts.rs a_snooze_that_does_not_fit_into_the_total_timeout_ends_the_call_at_once

## What is written down

the event that ends a call has the attempt and its start
    records.rs the_event_that_ends_a_call_says_which_attempt_it_was_and_when_that_began
    records.rs a_call_that_fails_with_its_first_attempt_says_which_and_when_too
the story of the retries has Edda's names
    edda.rs the_history_tells_the_story_of_the_retries_in_eddas_words
    retries.rs a_call_that_needed_retries_tells_their_story
it is there whenever there was more than one attempt
    records.rs a_story_is_told_whenever_there_was_more_than_one_attempt
and only then
    retries.rs a_call_that_succeeded_at_once_carries_no_story
it keeps the first ten failures and the last ten, and counts the rest
    retries.rs a_long_story_keeps_the_first_ten_and_the_last_ten_failures
messages over 4 KiB are cut with a mark
    retries.rs a_long_message_is_cut_with_a_mark_and_never_inside_a_letter
    records.rs long_messages_are_cut_in_the_story_too
the ledger has every attempt that did not succeed
    duroxide_plan.rs every_attempt_that_failed_has_a_row_in_the_ledger_and_the_call_one_event
    failures.rs failed_attempts_leave_a_trace_after_an_eventual_success
a thousand of them for each call
    records.rs the_ledger_of_a_call_keeps_a_thousand_attempts_of_both_ends

## Timeouts

there is none unless somebody sets one
    peers.rs an_attempt_that_takes_a_month_is_made_once
    duroxide_plan.rs without_a_total_timeout_all_attempts_are_made_however_long_it_takes
each is taken by itself from the call, the activity or the app
    resolution.rs each_timeout_is_taken_by_itself_from_the_call_the_activity_or_the_app
    retries.rs each_timeout_is_taken_from_the_call_before_the_activity
a policy replaces another one whole
    resolution.rs the_policy_of_a_call_replaces_the_activitys_whole
attempt: its clock begins with the attempt
    timeouts.rs an_attempt_that_waited_for_its_slot_has_all_of_its_time
attempt: it fails as Timeout and is tried again
    retries.rs an_attempt_that_takes_too_long_is_told_and_the_next_one_follows_by_policy
attempt: unless a rule forbids that
    timeouts.rs a_rule_can_forbid_another_attempt_after_a_timeout
attempt: as in Duroxide's policies
    duroxide_plan.rs an_attempt_that_takes_too_long_is_not_tried_again_in_duroxides_words
heartbeat: its clock begins with the attempt
    heartbeats.rs an_attempt_that_never_reports_is_silent_from_its_start
heartbeat: and anew with each heartbeat; it fails as HeartbeatTimeout and is tried again
    heartbeats.rs an_attempt_that_is_silent_for_too_long_fails_and_is_retried
heartbeat: unless a rule forbids that
    heartbeats.rs a_rule_can_forbid_another_attempt_after_silence
queue: its clock begins when the attempt is due
    timeouts.rs the_queue_clock_starts_when_the_attempt_became_due
queue: it stands still while the store is out of reach
    timeouts.rs the_queue_clock_stands_still_while_the_store_takes_nothing
    timeouts.rs the_queue_clock_stands_still_while_the_store_cannot_be_read
    timeouts.rs the_queue_clock_goes_on_when_the_store_is_back
queue: it ends the call as QueueTimeout
    timeouts.rs an_attempt_that_no_slot_is_free_for_ends_its_call_when_the_queue_timeout_passes
queue: unless a rule retries it, as a failure that counts
    timeouts.rs a_rule_can_retry_what_nobody_took_and_it_counts_as_a_failure
queue: in Cadence's policies it is the expiration
    cadence.rs an_attempt_may_wait_for_a_worker_as_long_as_the_expiration_interval
total: its clock begins with the scheduling
    timeouts.rs the_total_timeout_ends_a_call_that_waits_for_a_slot_to_the_millisecond
total: it cuts the attempt and ends the call
    duroxide_plan.rs a_total_timeout_cuts_the_attempt_that_runs
max_elapsed: its clock begins with the scheduling, or with the first attempt
    timeouts.rs the_time_a_policy_allows_counts_from_the_call_or_from_its_first_attempt
max_elapsed: it ends retrying
    retries.rs no_retry_begins_that_would_pass_the_time_a_policy_allows
max_elapsed: and cuts no attempt
    timeouts.rs the_time_a_policy_allows_cuts_no_attempt_that_runs
attempts are watched in memory
    timeouts.rs a_timeout_passes_in_memory_also_while_the_store_takes_nothing
a slow store makes no attempt late
    timeouts.rs a_store_that_takes_its_time_makes_no_attempt_too_slow
nor silent
    heartbeats.rs a_store_that_takes_nothing_makes_nobody_silent
an attempt whose time is up is told, and dropped after the grace period
    timeouts.rs an_attempt_that_ran_out_of_time_is_told_and_dropped_after_the_grace_period
a plain function keeps its slot until it returns
    timeouts.rs a_plain_function_that_ran_out_of_time_keeps_its_slot_until_it_returns
its result is refused, and the next attempt does not wait for it
    timeouts.rs the_next_attempt_does_not_wait_for_a_plain_function_and_its_result_is_refused
a timer is about one attempt and no other
    timeouts.rs a_timer_of_an_earlier_attempt_never_touches_a_later_one
    timeouts.rs an_attempt_that_beats_its_timeouts_leaves_no_timer_and_causes_no_turn
times are kept to the millisecond
    duroxide_plan.rs a_timeout_of_a_millisecond_passes_after_a_millisecond
    timeouts.rs the_total_timeout_ends_a_call_that_waits_for_a_slot_to_the_millisecond

## Heartbeats

the next attempt gets what the last one told
    heartbeats.rs an_attempt_goes_on_where_the_one_before_has_reported_to_be
also after a crash
    heartbeats.rs a_heartbeat_survives_a_crash_as_far_as_it_was_written
operators see it
    cadence.rs what_an_attempt_reports_is_seen_in_the_description
the first is written at once, later ones after 80 % of the timeout
    heartbeats.rs the_first_heartbeat_is_written_at_once_and_later_ones_after_80_percent_of_the_timeout
or every 30 seconds
    heartbeats.rs without_a_heartbeat_timeout_heartbeats_are_written_every_30_seconds
the last one is written with the outcome
    heartbeats.rs the_last_heartbeat_is_written_with_the_outcome_however_an_attempt_ends
    heartbeats.rs a_graceful_stop_writes_the_last_heartbeat_down
the answer says that the call was cancelled
    heartbeats.rs the_reply_tells_an_attempt_that_its_call_was_cancelled
or that the claim is lost
    heartbeats.rs the_reply_tells_an_attempt_that_it_ran_out_of_time
    heartbeats.rs a_plain_function_whose_process_was_taken_from_it_is_told

## Cancelling a call

it is no failure, and never retried
    cadence.rs a_cancellation_is_no_failure_and_is_not_retried
    cancelling.rs a_running_attempt_is_told_and_its_call_settles_when_it_ends
a call in its backoff is closed at once
    waiting.rs a_call_is_cancelled_in_the_middle_of_its_backoff
    cancelling.rs a_call_that_waits_for_its_next_attempt_is_closed_at_once
one that waits for a slot too
    cancelling.rs a_call_that_was_given_up_before_it_could_begin_never_begins
a running attempt is told
    waiting.rs an_attempt_whose_call_was_given_up_is_told
without a compensation it has the grace period, and is dropped
    cancelling.rs an_attempt_whose_call_was_given_up_is_told_and_dropped_after_the_grace_period
with one the call settles when the attempt ends
    cancelling.rs a_running_attempt_is_told_and_its_call_settles_when_it_ends
or is lost
    cancelling.rs an_attempt_that_is_lost_settles_its_call
and not before, however long that takes
    cancelling.rs a_call_that_can_be_undone_is_waited_for_longer_than_the_grace_period
what succeeds all the same is recorded with its value, and undone
    cancelling.rs an_attempt_that_returns_ok_although_cancelled_is_recorded_and_compensated
an end is never overwritten by another
    cancelling.rs a_terminal_status_is_never_overwritten

## Keys, policies, slots

the key of a call is the same for all attempts and differs between calls
    retries.rs the_key_of_a_call_is_the_same_for_all_attempts_and_another_for_every_call
also across restarts
    retries.rs the_key_of_a_call_is_the_same_across_restarts
and between runs and instances
    continuing.rs the_key_of_a_call_is_another_one_in_every_run
a policy is taken from the call, the activity, then the app
    retries.rs the_policy_of_a_call_comes_before_the_activitys_and_that_before_the_apps
else it is the engine's own
    retries.rs without_any_policy_there_are_ten_attempts
code that changes concerns calls that are scheduled later
    duroxide_plan.rs a_policy_that_changes_under_a_run_holds_for_the_calls_made_after_that
    retries.rs a_call_keeps_the_policy_it_was_scheduled_with_when_the_app_changes_its_own
    resolution.rs a_call_keeps_the_timeouts_it_was_scheduled_with_when_the_code_changes
activities are async
    first.rs a_workflow_calls_its_activities_one_after_another
or plain functions on threads for that
    slots.rs plain_functions_run_beside_each_other_on_threads_of_their_own
a node has a thousand slots
    slots.rs a_node_runs_a_thousand_attempts_at_once_unless_set
or as many as it is given
    slots.rs a_node_runs_so_many_attempts_at_once_and_no_more
queues and activities have theirs
    slots.rs a_call_needs_a_slot_of_its_activity_and_one_of_its_queue
    slots.rs an_activity_and_a_queue_at_their_limits_hold_up_nobody_else
who waits for its time holds no slot
    retries.rs a_call_that_waits_for_its_next_attempt_holds_no_slot
    peers.rs a_short_backoff_holds_no_slot
nor does who waits for another slot
    slots.rs a_call_that_waits_for_its_activity_or_its_queue_holds_no_slot_of_the_node
nor any task of the runtime
    slots.rs calls_that_wait_for_a_slot_or_for_their_time_hold_no_task_of_the_runtime
nor an attempt
    slots.rs a_call_that_waits_for_a_slot_uses_nothing_up

## Transactions

the user's writes and the result are there together, or neither is
    transactions.rs the_change_and_the_result_are_recorded_together
    transactions.rs a_crash_at_any_commit_applies_everything_once
the token is checked before anything is written
    transactions.rs an_attempt_whose_time_is_up_does_not_write_later
    transactions.rs an_attempt_of_a_call_that_was_given_up_writes_nothing
the turn is a commit of its own after that
    transactions.rs the_change_and_the_result_are_recorded_together
the code may be run again
    transactions.rs attempts_that_run_twice_write_once
    store-sqlite/tests/suite/transact.rs a_full_disk_is_no_failure_of_the_code
its panics are caught
    transactions.rs failures_and_panics_leave_nothing_behind_and_are_retried_by_policy
its time is bounded
    transactions.rs a_transaction_that_takes_too_long_is_a_timeout_for_the_policy
it does not end the transaction itself
    store-sqlite/tests/suite/transact.rs the_transaction_is_not_the_guests_to_control
and does not see the engine's tables
    transactions.rs what_is_not_allowed_ends_the_call_and_is_named
    store-sqlite/tests/suite/transact.rs our_tables_are_not_the_guests
an attempt that failed leaves nothing behind
    transactions.rs failures_and_panics_leave_nothing_behind_and_are_retried_by_policy

## An activity that nobody knows

waits, uses nothing up, and is listed with the reason
    retries.rs an_activity_that_nobody_knows_waits_and_uses_nothing_up

## Starting a workflow

it is durable when start returns
    starting.rs an_instance_is_durable_when_start_returns
an id that is taken is refused, unless an option uses the running one or replaces a closed one
    starting.rs the_same_id_again_is_an_error_unless_an_option_says_what_follows
    bad_input.rs an_id_that_is_taken_is_refused_and_its_run_is_left_alone
a start that is repeated with its request id has the first answer
    starting.rs a_repeated_start_returns_the_first_answer_whatever_became_of_it
so has a signal
    signals.rs a_signal_with_a_request_id_is_taken_once_wherever_the_first_one_is
an unknown workflow is an error where it can be known
    bad_input.rs an_unknown_workflow_is_refused_and_the_known_ones_are_named
and waits with the reason elsewhere
    resurgam/tests/suite/sharing.rs a_workflow_that_only_the_owner_could_know_waits_with_the_reason
a start has a retry policy
    workflow_retry.rs a_run_that_fails_is_followed_by_another_one_after_the_backoff
a run timeout
    starting.rs a_run_that_takes_too_long_fails_and_what_it_left_open_ends
a total timeout
    starting.rs a_total_timeout_counts_the_delay_too
a delay
    starting.rs a_delayed_start_exists_at_once_and_takes_its_first_turn_later
a queue
    starting.rs calls_that_name_no_queue_go_to_their_activitys_or_else_to_their_instances
a priority
    slots.rs the_next_slot_goes_to_the_call_of_the_highest_priority_that_is_due
tags
    starting.rs instances_are_found_by_their_tags

## Signals

they are read in the order of their arrival
    signals.rs signals_of_several_names_are_taken_in_the_order_they_came
    waiting.rs signals_are_read_in_the_order_they_came_across_restarts
also those that nobody waited for
    signals.rs signals_that_nobody_waits_for_are_kept_in_order_and_are_not_in_the_history_yet
also those that came before the first turn
    signals.rs signals_that_come_before_a_delayed_start_begins_are_kept
they have types
    waiting.rs a_signal_that_cannot_be_read_is_a_failure_that_the_workflow_can_handle
the next run gets what was not read
    continuing.rs unread_signals_go_over_in_the_order_they_came
    continuing.rs a_signal_that_was_given_and_not_read_goes_over_before_later_ones
a signal to nobody is an error
    bad_input.rs a_signal_to_nobody_is_refused
so is one to a closed instance
    bad_input.rs a_signal_to_an_instance_that_is_closed_is_refused
one that was taken was stored while the instance was open
    bad_input.rs a_signal_that_comes_as_the_run_ends_is_taken_or_refused_and_never_both
one that lost the race with the close stays visible
    signals.rs a_signal_that_was_stored_in_time_and_lost_the_race_with_the_close_stays_unread
    signals.rs what_a_closed_instance_did_not_read_stays_visible
senders are refused at ten thousand unread
    signals.rs ten_thousand_unread_signals_are_the_limit

## Status, timers, children

the status can be read
    waiting.rs a_status_is_readable_from_outside_and_the_last_one_counts
and waited for
    starting.rs a_status_and_data_are_read_and_waited_for_from_outside
so can the data of an instance
    starting.rs an_entry_of_the_data_is_waited_for_from_outside
    continuing.rs data_and_tags_and_status_go_over
a sleep ends at its time, whatever dies meanwhile
    waiting.rs a_sleep_ends_at_its_time_and_a_restart_does_not_prolong_it
dropping a sleep cancels it
    cancelling.rs dropping_a_wait_cancels_what_it_waited_for
and its row is gone
    waiting.rs a_timer_that_is_dropped_is_gone_from_the_store
a child has an id of its own
    children.rs an_id_that_is_taken_is_a_failure_of_the_child
and a policy and timeouts
    children.rs a_child_has_a_retry_policy_and_timeouts_of_its_own
its parent sees only how it ended
    children.rs a_parent_waits_for_its_children_and_sees_only_their_outcome
it is cancelled with its parent unless somebody says otherwise
    children.rs a_child_is_cancelled_when_its_parent_ends_unless_told_otherwise
or cancelled, terminated or left alone as it was told
    children.rs a_parent_that_ends_takes_its_children_with_it_as_they_were_told
a detached start is nobody's child
    children.rs a_detached_start_is_nobodys_child

## Continuing as new

same id, next run, empty history
    continuing.rs the_next_run_has_the_same_id_and_an_empty_history
unread signals go over
    continuing.rs unread_signals_go_over_in_the_order_they_came
tags and data go over
    continuing.rs data_and_tags_and_status_go_over
the retry policy goes over
    continuing.rs the_retry_policy_goes_over_and_attempts_are_counted_anew

## Cancelling a run

every open wait ends once, as Cancelled, and later ones at once
    waiting.rs cancelling_ends_every_open_wait_once_and_later_ones_at_once
    cancelling.rs every_open_wait_ends_once_and_later_ones_at_once
children are waits too
    children.rs cancelling_a_parent_cancels_its_children_and_theirs
a shield keeps what is awaited through it
    cancelling.rs what_is_awaited_through_a_shield_goes_on
    cancelling.rs a_shielded_call_that_runs_when_the_run_is_cancelled_is_not_disturbed
then what was done is undone, and the run closes as cancelled
    compensation.rs a_run_that_is_cancelled_undoes_what_it_did

## Retrying a workflow

what was done is undone first
    workflow_retry.rs compensations_are_finished_before_the_next_run
where that cannot be done there is no other run
    workflow_retry.rs a_run_that_could_not_undo_everything_is_not_retried
a run that passes its timeout is retried too
    workflow_retry.rs a_run_that_takes_too_long_is_retried_like_one_that_fails
the last event says who continues, after which failure, and when
    workflow_retry.rs the_events_say_who_began_the_next_run_and_how_long_it_waits
the next run exists at once, and its first turn waits
    workflow_retry.rs the_next_run_exists_at_once_and_its_first_turn_waits
its first event has the delay and the attempt
    workflow_retry.rs the_events_say_who_began_the_next_run_and_how_long_it_waits
the policy's time bounds the chain
    workflow_retry.rs the_time_that_the_policy_allows_bounds_the_whole_chain
a run that fails while it is cancelled is cancelled
    cancelling.rs a_run_that_fails_while_being_cancelled_is_cancelled_and_not_retried
    workflow_retry.rs a_run_that_fails_and_is_cancelled_while_it_undoes_is_not_retried
the result is that of the last run
    workflow_retry.rs a_run_that_fails_is_followed_by_another_one_after_the_backoff

## Closing

what is open ends in the commit that closes the run
    waiting.rs what_a_run_leaves_open_ends_in_the_commit_that_closes_it
and nothing of it happens later
    waiting.rs what_a_run_leaves_open_ends_with_it

## Compensation

it is data, and cannot change under a run
    compensation.rs what_undoes_a_call_is_recorded_with_its_completion_and_cannot_change_under_a_run
it is written with the completion
    compensation.rs what_undoes_a_call_is_written_in_the_commit_that_completes_it
it belongs to the run
    compensation.rs a_compensation_belongs_to_the_run_and_not_to_the_future
a failed run undoes what it did, last first, one after another
    compensation.rs a_run_that_fails_undoes_what_it_did_last_first
so does a cancelled one
    compensation.rs a_run_that_is_cancelled_undoes_what_it_did
by the policy of what undoes
    compensation.rs a_compensation_has_the_policy_of_its_activity
or without end
    compensation.rs without_a_policy_of_its_own_a_compensation_is_tried_until_it_succeeds
    compensation.rs the_time_that_the_apps_policy_allows_does_not_bound_a_compensation
after all open calls have settled
    compensation.rs compensations_wait_until_all_open_calls_have_settled
one that fails for good is recorded, the others run, and lists show it
    compensation.rs a_compensation_that_fails_for_good_is_recorded_and_the_others_still_run

## Versions

a change records which way a run took
    versions.rs a_run_that_came_by_before_a_change_was_made_keeps_to_the_old_way
    versions.rs a_run_stays_with_the_version_that_it_took
a run stays on its own version of several
    versions.rs a_run_stays_on_its_own_version_and_new_ones_take_the_newest

## Schedules

a firing starts the instance of its time, with the value, by cron and zone
    schedules.rs each_firing_starts_the_instance_called_after_its_time
or by interval
    schedules.rs a_schedule_by_interval_fires_at_even_distances
nothing fires twice
    schedules.rs each_firing_starts_one_instance_with_a_crash_at_every_commit
    schedules.rs a_clock_that_goes_back_or_ahead_fires_nothing_twice
overlap is skipped
    schedules.rs a_schedule_skips_what_overlaps_unless_told_otherwise
or buffered, or allowed, as judged on the last instance
    schedules.rs overlap_is_judged_on_the_last_instance
    schedules.rs a_buffered_firing_starts_when_the_last_instance_closes
after downtime a minute is caught up, or as much as is set, and the rest counted
    schedules.rs after_downtime_firings_are_caught_up_within_the_window_and_others_counted_as_missed
a time that the clock leaves out fires at the next, one that it repeats fires once
    schedules.rs daylight_saving_a_time_that_does_not_exist_fires_at_the_next_and_one_that_comes_twice_once
pausing and resuming
    schedules.rs a_paused_schedule_forgets_and_a_resumed_one_goes_on
running now
    schedules.rs a_schedule_runs_now_when_it_is_told_to
filling a range of the past
    schedules.rs a_backfill_starts_a_past_range_and_nothing_twice
jitter
    schedules.rs jitter_delays_the_start_and_not_the_name

## Limits

two mebibytes for a value
    limits.rs a_value_may_have_two_mebibytes_and_no_more
    bad_input.rs an_argument_that_is_too_large_is_refused
fifty thousand events, and then HistoryLimit
    limits.rs a_history_may_have_fifty_thousand_events_and_no_more
a warning that names the way out
    limits.rs a_history_that_grows_long_is_warned_of_once
at ten thousand
    limits.rs a_history_of_more_than_ten_thousand_events_is_warned_of
ten thousand open calls
    limits.rs a_run_may_have_ten_thousand_open_calls_and_no_more
64 MiB of their arguments
    limits.rs the_arguments_of_open_calls_may_have_sixty_four_mebibytes_and_no_more
each can be set, and is told clearly
    bad_input.rs a_value_of_a_workflow_that_is_too_large_blocks_it_until_it_is_mended
    bad_input.rs a_history_that_grows_too_long_ends_its_run
    bad_input.rs too_many_open_calls_end_their_run_before_any_of_them_is_attempted
    bounds.rs a_run_whose_open_calls_hold_too_much_fails_and_says_so

## Retention and bare activities

what is closed is deleted by age and status
    retention.rs closed_instances_can_be_deleted_by_age_and_status
in bounded batches
    retention.rs many_are_deleted_in_bounded_batches
an activity runs durably by its policy without a workflow
    retries.rs a_bare_activity_is_retried_by_its_own_policy
    counters.rs failures_losses_interruptions_and_snoozes_are_counted_apart

## Clarified after use

nothing is undone before every open attempt of the run has ended
    undoing.rs compensations_begin_when_the_attempts_of_all_other_calls_have_ended
    undoing.rs a_cancelled_run_waits_for_its_attempts_too_before_it_undoes_anything
    undoing.rs calls_that_are_open_when_the_time_of_a_run_is_up_are_waited_for
    model.rs random_workflows_do_at_every_moment_what_the_model_says
or is lost
    undoing.rs an_attempt_that_died_with_its_process_is_not_waited_for
    undoing.rs a_crash_at_any_commit_changes_nothing_about_what_is_undone
or its grace period is over
    undoing.rs an_attempt_that_does_not_end_is_waited_for_until_its_grace_period_is_over
a run with nothing to undo does not wait
    undoing.rs a_run_with_nothing_to_undo_does_not_wait
a call that can be undone settles after its total timeout, of which the workflow hears at once
    undoing.rs what_an_attempt_returns_after_the_total_timeout_of_its_call_is_recorded_and_undone
    undoing.rs an_attempt_that_outlives_its_grace_period_too_took_no_effect_that_is_known
    undoing.rs a_crash_while_a_call_settles_after_its_total_timeout_loses_its_attempt
    undoing.rs a_late_value_of_a_run_that_completes_is_not_undone
a cancelled run that returns a value is completed, and nothing is undone
    cancelling.rs a_cancelled_run_that_returns_a_value_is_completed_and_nothing_is_undone
    cancelling.rs a_shielded_call_that_runs_when_the_run_is_cancelled_is_not_disturbed
a cancelled run that returns any failure is cancelled
    cancelling.rs a_run_that_fails_while_being_cancelled_is_cancelled_and_not_retried
a new run takes the newest version, whichever way it came about
    versions.rs a_run_stays_on_its_own_version_and_new_ones_take_the_newest
a workflow that snoozes runs again with the same input, and no failure is counted
    workflow_retry.rs a_workflow_that_snoozes_is_run_again_with_its_input_and_no_failure_is_counted
with or without a policy
    workflow_retry.rs a_workflow_snoozes_without_a_policy_too_and_across_a_restart
max_elapsed does not bound snoozes, the total timeout does
    workflow_retry.rs a_workflow_that_snoozes_is_run_again_with_its_input_and_no_failure_is_counted
    workflow_retry.rs a_snooze_that_the_total_timeout_leaves_no_time_for_ends_the_instance
timeouts in a workflow's policy are refused
    workflow_retry.rs timeouts_in_the_policy_of_a_workflow_are_refused_wherever_it_is_given
the policy of a submitted activity is the activity's
    retries.rs the_policy_of_a_submitted_activity_is_the_policy_of_the_activity
a delay of one millisecond is one millisecond, also right after a start
    retries.rs a_delay_of_a_millisecond_is_one_also_right_after_a_start_or_a_restart
a server's delay is bounded by server_delay.max and not by max_delay
    retries.rs a_servers_delay_is_bounded_by_its_own_maximum_and_not_by_that_of_the_policy
an activity that a node does not know waits
    found_later.rs a_call_waits_for_an_activity_that_comes_later_and_nothing_is_counted
a workflow that a node does not know waits, and is never blocked and never fails
    unknown.rs instances_of_an_unknown_workflow_wait_and_nothing_is_tried_meanwhile
    unknown.rs why_an_instance_waits_is_no_longer_said_once_it_goes_on
    unknown.rs an_instance_that_waits_for_its_workflow_can_be_terminated
    versions.rs a_run_whose_version_is_gone_waits_for_a_process_that_knows_it
    children.rs a_child_of_an_unknown_workflow_waits_for_a_process_that_knows_it
a node whose workflows are a strict subset of another live node's leaves its shards to it
    store-postgres/tests/suite/members.rs a_node_leaves_its_shards_to_one_that_knows_all_of_its_workflows_and_more
    deployments.rs a_rolling_deployment_that_adds_a_workflow_holds_up_nobody
a node whose workflows merely differ owns no shards while others do
    store-postgres/tests/suite/members.rs a_node_with_other_workflows_takes_no_shards_while_others_own_them
    deployments.rs another_program_on_the_same_schema_waits_for_its_turn_and_holds_up_nobody
also workers of the command line beside an app's nodes
    unknown.rs an_interpreter_leaves_instances_whose_argument_it_does_not_read_to_others
a call whose secrets key is missing or wrong waits for a node that has it
    graph/tests/suite/secrets.rs a_run_waits_for_its_key_and_goes_on_when_the_worker_is_started_with_it
    graph/tests/suite/secrets.rs a_worker_without_the_right_key_asks_for_it_by_its_fingerprint_and_fails_nothing
    cli/tests/suite/work/secrets.rs on_postgres_another_worker_that_has_the_key_takes_the_call

## How Duroxide's plan is read

N attempts have N - 1 delays, and none follows the last
    duroxide_plan.rs there_is_one_delay_less_than_attempts_and_none_after_the_last
attempts are rows and not events
    duroxide_plan.rs every_attempt_that_failed_has_a_row_in_the_ledger_and_the_call_one_event
delays and timeouts are no timers of the run
    duroxide_plan.rs timeouts_of_a_call_are_no_events_of_its_run
a policy that changes does not break a run
    duroxide_plan.rs a_policy_that_changes_under_a_run_holds_for_the_calls_made_after_that
no attempts at all are refused
    duroxide_plan.rs no_attempts_at_all_are_refused_with_the_way_out
results for an earlier run are dropped
    duroxide_plan.rs a_result_for_the_run_before_is_dropped_and_the_next_run_does_not_hear_of_it
    duroxide_plan.rs late_results_of_several_runs_are_all_dropped_also_across_a_restart
the total timeout ends a call before a delay that would pass it, not in it
    duroxide_plan.rs a_call_ends_at_once_when_the_next_delay_would_pass_its_total_timeout
an activity without a name is refused
    duroxide_plan.rs an_activity_without_a_name_is_refused
";

/// The names in that plan, each of which stands above its test in `duroxide_plan.rs`.
const PLAN: &str = "
test_activity_exhausts_all_attempts
test_activity_fails_then_succeeds
test_activity_single_attempt_fails
test_activity_succeeds_first_attempt
test_activity_succeeds_timeout_fires_after_continue_as_new
test_backoff_exponential
test_backoff_exponential_overflow
test_backoff_fixed
test_backoff_linear
test_backoff_none
test_empty_activity_name
test_history_contains_all_activity_scheduled_events
test_history_contains_backoff_timers
test_history_no_timeout_timer_when_none
test_history_timeout_timer_at_start
test_large_max_attempts
test_max_attempts_one_no_backoff
test_max_attempts_zero
test_multiple_orchestrations_retrying
test_multiple_stale_events_across_executions
test_no_timeout_retries_until_exhausted
test_only_application_errors_retried
test_replay_partial_then_complete
test_replay_retry_success_on_third_attempt
test_replay_timeout_scenario
test_replay_with_different_policy_fails
test_replay_with_stale_events_in_history
test_retry_backoff_respects_max
test_retry_policy_builder
test_retry_policy_default
test_retry_policy_new
test_retry_timeout_with_slow_activity
test_retry_with_exponential_backoff
test_retry_with_fixed_backoff
test_retry_with_no_backoff
test_retry_with_real_failing_activity
test_returns_last_error_message
test_stale_event_same_execution_after_select_winner
test_success_before_timeout
test_timeout_error_message
test_timeout_fires_activity_completes_after_continue_as_new
test_timeout_fires_before_success
test_timeout_fires_during_backoff
test_timeout_with_single_attempt
test_typed_activity_retry_failure
test_typed_activity_retry_success
test_typed_input_serialized_once
test_very_short_timeout
test_zero_duration_backoff
";

/// A promise with its section, and its tests by file and name.
type Promise<'a> = ((&'a str, &'a str), Vec<(&'a str, &'a str)>);

fn promises() -> Vec<Promise<'static>> {
    let mut promises: Vec<Promise<'static>> = Vec::new();
    let mut section = "";
    for line in PROMISES.lines().filter(|line| !line.is_empty()) {
        match (line.strip_prefix("## "), line.strip_prefix("    ")) {
            (Some(name), _) => section = name,
            (_, Some(test)) => promises.last_mut().unwrap().1.push(test.split_once(' ').unwrap()),
            _ => promises.push(((section, line), Vec::new())),
        }
    }
    promises
}

/// The text of a file of tests. One without a folder is a test of the engine.
pub(crate) fn text_of(file: &str) -> String {
    let file =
        if file.contains('/') { file.to_string() } else { format!("testing/tests/suite/{file}") };
    resurgam_checks::read(&format!("crates/{file}"))
}

/// The names of the functions that are tests, each with the line before its attributes.
pub(crate) fn tests_in(text: &str) -> BTreeMap<&str, &str> {
    let lines: Vec<&str> = text.lines().collect();
    let mut tests = BTreeMap::new();
    for (place, line) in lines.iter().enumerate() {
        let function = line.trim_start().trim_start_matches("async ").strip_prefix("fn ");
        let Some((name, _)) = function.and_then(|function| function.split_once("()")) else {
            continue;
        };
        let above = lines[..place].iter().rev();
        let attributes = above.clone().take_while(|line| line.trim_start().starts_with("#["));
        let is_test = |line: &&&str| ["#[test"].iter().any(|t| line.contains(t));
        if attributes.clone().any(|line| is_test(&line)) {
            tests.insert(name, above.clone().nth(attributes.count()).copied().unwrap_or_default());
        }
    }
    tests
}

#[test]
fn every_promise_has_its_test() {
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    for ((section, promise), tests) in promises() {
        assert!(!tests.is_empty(), "{section}: {promise}: it has no test");
        for (file, test) in tests {
            let text = texts.entry(file).or_insert_with(|| text_of(file));
            let found = tests_in(text).contains_key(test);
            assert!(found, "{section}: {promise}: there is no test {test} in {file}");
        }
    }
}

#[test]
fn no_promise_is_made_twice() {
    let mut known = BTreeSet::new();
    let twice: Vec<_> = promises()
        .into_iter()
        .map(|promise| promise.0)
        .filter(|name| !known.insert(*name))
        .collect();
    assert_eq!(twice, []);
}

#[test]
fn every_test_of_duroxides_plan_is_there() {
    let text = text_of("duroxide_plan.rs");
    let above = tests_in(&text).into_values().collect::<Vec<_>>().join("\n");
    let names: BTreeSet<&str> = above.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let missing: Vec<&str> = PLAN.split_whitespace().filter(|name| !names.contains(name)).collect();
    assert_eq!(missing, [""; 0]);
}
