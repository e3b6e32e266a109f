//! The promises of a store, a file for each topic, as a library.
//!
//! A store's own tests call [`conformance_tests!`](crate::conformance_tests) with a function that
//! opens a fresh, empty store, and get a test for each promise; a store that fails one of them is
//! not a store. What only one kind of store can show (that a commit survives a crash, how a locked
//! file is reported) stays with that store.
//!
//! ```ignore
//! async fn fresh() -> Box<MyStore> {
//!     Box::new(MyStore::in_memory().await)
//! }
//!
//! resurgam_store::conformance_tests!(fresh);
//! ```
//!
//! The function may return anything that dereferences to the store, so that a temporary folder can
//! live as long as the store in it.

// The suite is tests; it is only compiled as a library so that other crates can run it.
#![allow(clippy::unwrap_used, missing_docs)]

pub mod actions;
pub mod atomicity;
pub mod audit;
pub mod bulk;
pub mod differential;
pub mod families;
mod fixtures;
pub mod gates;
pub mod graph_templates;
pub mod history;
pub mod identity;
pub mod large_lists;
pub mod ledger;
pub mod looking;
pub mod messages;
pub mod owning;
pub mod policies;
pub mod pressure;
pub mod remote;
pub mod retention;
pub mod schedules;
pub mod tasks;
pub mod tokens;
pub mod unresolved;

/// Calls a macro with every promise there is: the one list of them.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_promises {
    ([$($then:tt)+] $($with:tt)*) => {
        $($then)+! { ($($with)*)
            atomicity::a_batch_is_written_whole,
            atomicity::one_refused_row_takes_the_whole_batch_with_it,
            atomicity::a_duplicate_start_is_refused_alone,
            atomicity::a_start_of_the_same_batch_holds_its_id,
            atomicity::steps_are_written_in_order,
            atomicity::the_parts_of_a_step_are_written_in_order,
            atomicity::nothing_to_write_is_no_trouble,
            atomicity::a_read_sees_what_was_acknowledged,
            identity::an_instance_comes_back_as_it_was,
            identity::an_open_instance_keeps_its_id,
            identity::a_closed_instance_keeps_its_id_unless_it_is_replaced,
            identity::a_replaced_instance_is_still_there_under_its_uid,
            identity::a_repeated_request_is_a_duplicate_under_any_id,
            identity::a_refused_request_leaves_the_closed_holder_alone,
            identity::a_request_is_found_also_when_its_instance_gave_up_its_id,
            identity::a_uid_is_used_once,
            identity::a_late_message_to_an_earlier_holder_misses,
            identity::a_change_of_status_is_written_whole,
            identity::a_paused_instance_says_who_paused_it_and_is_open,
            identity::open_instances_that_do_not_go_on_are_found_by_the_page,
            identity::a_change_of_status_needs_its_instance,
            identity::ids_are_compared_to_the_letter,
            identity::a_step_that_needs_an_open_instance_is_refused_alone,
            identity::an_instance_is_open_until_the_step_of_the_same_batch_that_closes_it,
            identity::the_next_run_begins_with_its_own_argument,
            identity::what_is_continued_is_open_whatever_it_was,
            identity::what_another_start_has_replaced_is_not_continued,
            identity::an_id_is_taken_over_only_from_the_closed_one_that_a_start_names,
            identity::only_what_was_started_is_continued,
            families::an_instance_is_born_together_with_the_step_that_asks_for_it,
            families::an_id_that_is_taken_stops_no_step_and_is_told,
            families::a_child_takes_over_the_id_of_a_closed_instance_where_it_may,
            families::an_instance_is_born_once,
            families::what_a_step_starts_it_can_send_messages_to,
            families::what_a_child_start_sends_takes_room_from_signals,
            families::a_message_to_an_instance_that_is_not_open_is_dropped,
            history::every_kind_of_event_comes_back_as_it_was,
            history::awkward_payloads_come_back_to_the_byte,
            history::events_come_back_in_their_order,
            history::a_history_is_read_in_parts_from_either_end,
            history::a_run_that_is_reset_has_a_copy_of_the_history_before_it,
            history::a_place_that_is_taken_stays_as_it_is,
            history::runs_and_instances_are_apart,
            history::a_run_with_a_missing_event_is_an_error_that_names_it,
            history::a_run_comes_back_whole,
            history::what_nobody_started_is_not_there,
            tasks::a_task_comes_back_as_it_was,
            tasks::a_call_has_one_task,
            tasks::a_call_cannot_follow_itself,
            tasks::a_call_that_follows_another_keeps_nothing_of_it,
            tasks::a_call_follows_only_one_that_is_there_and_only_once,
            tasks::an_update_needs_its_task,
            tasks::an_update_changes_everything_and_nothing_else,
            tasks::a_deletion_needs_its_task,
            tasks::a_run_that_closes_takes_its_tasks_and_no_others,
            tasks::only_tasks_of_known_activities_are_due,
            tasks::only_tasks_of_served_queues_are_due,
            tasks::a_queue_that_is_named_twice_is_served_once,
            tasks::a_task_that_lacks_something_is_not_due_where_that_is_missing,
            tasks::a_task_that_is_gone_can_be_discarded,
            tasks::a_task_that_is_gone_can_be_amended,
            tasks::due_tasks_come_earliest_first,
            tasks::a_task_is_not_due_at_the_very_moment_that_is_asked_about,
            tasks::a_claimed_task_is_not_due_until_it_is_released,
            tasks::a_paused_task_is_never_due,
            tasks::deadlines_of_waiting_tasks_come_earliest_first,
            tasks::deadlines_are_found_page_by_page_also_those_of_one_moment,
            tasks::a_task_that_runs_or_is_over_has_no_deadline,
            tasks::what_other_nodes_claimed_is_abandoned_when_they_are_gone,
            tasks::a_claim_whose_end_was_reported_is_not_abandoned,
            tasks::tasks_are_found_by_their_calls,
            tasks::a_loaded_task_has_what_an_attempt_needs,
            tasks::a_loaded_task_brings_both_ends_of_its_ledger,
            tasks::many_tasks_are_loaded_at_once_each_with_its_own,
            tasks::a_finished_task_is_not_there,
            messages::every_kind_of_message_comes_back_as_it_was,
            messages::a_due_message_says_whether_it_is_a_report,
            messages::messages_are_read_in_the_order_of_their_arrival,
            messages::messages_of_one_batch_arrive_in_its_order,
            messages::a_repeated_message_is_dropped,
            messages::the_same_message_id_for_another_instance_is_another_message,
            messages::deleting_a_message_that_is_gone_is_fine,
            messages::a_run_that_closes_takes_its_timers_and_results_and_nothing_else,
            messages::parked_messages_stay_and_wake_nobody,
            messages::parking_is_for_the_messages_that_are_there,
            messages::due_messages_come_earliest_first_and_then_as_they_arrived,
            messages::a_run_is_loaded_with_messages_that_are_not_due,
            messages::a_message_that_is_deferred_stays_and_is_not_due,
            messages::the_messages_of_one_instance_that_are_due_are_read_as_they_arrived,
            messages::a_signal_finds_room_or_is_refused_alone,
            messages::a_signal_with_a_request_id_is_remembered_for_its_id,
            ledger::attempts_come_back_as_they_were,
            ledger::attempts_come_in_the_order_of_their_end,
            ledger::a_ledger_is_bounded_and_keeps_both_ends,
            ledger::the_ledger_outlives_its_task,
            actions::actions_come_back_as_they_were,
            actions::an_action_of_an_id_that_is_known_is_dropped,
            actions::actions_come_in_the_order_of_time_and_run_by_run,
            actions::a_run_that_does_not_go_on_holds_up_no_action,
            actions::what_is_asked_of_a_run_outlives_it_and_what_is_asked_of_its_calls_does_not,
            unresolved::a_dead_letter_comes_back_as_it_was,
            unresolved::a_call_has_one_dead_letter,
            unresolved::a_letter_is_settled_once_and_a_later_decision_writes_nothing_of_its_step,
            unresolved::of_several_letters_that_a_step_settles_each_must_be_open,
            unresolved::a_dead_letter_outlives_its_instance,
            unresolved::letters_that_are_old_go_whatever_became_of_them,
            unresolved::letters_are_read_page_by_page_the_newest_first,
            unresolved::letters_are_grouped_by_their_fingerprints,
            unresolved::letters_are_found_by_what_they_failed_with_and_where,
            unresolved::paused_calls_are_found_and_grouped,
            unresolved::a_call_that_goes_on_is_no_longer_among_the_paused,
            bulk::a_bulk_job_comes_back_as_it_was,
            bulk::what_a_job_asks_for_is_refused_with_its_change,
            bulk::a_job_is_stopped_once_and_whoever_works_on_it_notices,
            bulk::open_jobs_come_oldest_first_and_a_list_newest_first,
            bulk::jobs_that_were_over_long_ago_go,
            bulk::calls_that_match_are_found_page_by_page,
            bulk::the_calls_of_a_run_say_what_failed_last_and_what_is_open,
            bulk::what_came_of_actions_is_told,
            gates::what_is_stored_of_a_gate_comes_back_part_by_part,
            gates::what_was_decided_goes_and_what_an_operator_set_stays,
            gates::what_nodes_count_is_kept_by_gate_second_and_node,
            gates::what_is_paused_is_kept_until_it_is_released,
            gates::only_an_owner_decides_about_gates,
            gates::tasks_behind_a_gate_that_is_left_out_are_not_due,
            gates::tasks_of_many_gates_come_earliest_first,
            gates::of_the_gates_that_are_named_only_so_many_are_due,
            gates::a_paused_kind_is_not_due,
            gates::the_gates_that_tasks_wait_behind_are_found_page_by_page,
            gates::those_that_wait_behind_a_gate_are_counted_so_far,
            gates::who_claims_a_task_to_probe_says_so_and_others_do_not,
            policies::a_policy_is_stored_once,
            policies::the_first_text_of_a_policy_counts,
            policies::an_unknown_policy_is_not_there,
            policies::what_is_set_for_an_activity_is_counted_and_kept,
            policies::calls_of_an_activity_that_wait_are_found_page_by_page,
            tokens::a_token_comes_back_as_it_was,
            tokens::a_token_is_revoked_once_and_stays,
            tokens::a_login_is_kept_until_it_ends_or_is_ended,
            pressure::what_is_counted_of_the_same_adds_up,
            pressure::counts_are_read_by_time_and_activity_and_added_up_to_steps,
            pressure::counts_that_are_old_go_with_the_next_ones,
            audit::what_was_done_comes_back_the_newest_first_and_page_by_page,
            audit::what_was_done_long_ago_goes,
            audit::actions_of_all_instances_come_back_the_newest_first_and_page_by_page,
            graph_templates::a_graph_is_kept_replaced_and_deleted_by_its_name,
            graph_templates::graphs_are_listed_by_their_names,
            remote::what_servers_hear_of_sessions_is_kept_apart_and_goes_when_it_is_old,
            remote::activities_that_workers_offered_are_kept_until_they_are_old,
            looking::an_instance_is_found_by_its_id,
            looking::a_list_shows_the_newest_first,
            looking::a_list_is_bounded,
            looking::a_list_can_be_narrowed_by_status_and_workflow,
            looking::a_list_can_be_narrowed_to_what_is_retrying,
            looking::a_list_can_be_narrowed_by_tag,
            looking::a_list_can_be_narrowed_by_schedule,
            looking::a_list_can_be_narrowed_by_tag_schedule_and_compensation,
            looking::a_list_is_read_page_by_page_while_more_are_started,
            looking::a_page_behind_an_instance_that_is_gone_leaves_nothing_out,
            looking::a_list_can_be_narrowed_to_what_was_started_since_a_time,
            looking::instances_are_listed_by_what_their_ids_begin_with,
            looking::the_last_value_of_a_key_counts,
            looking::data_of_instances_is_apart,
            looking::only_the_closed_ones_of_many_are_told,
            looking::only_the_missing_ones_of_many_are_told,
            owning::one_node_owns_a_store_at_a_time,
            owning::the_right_to_work_ends_when_it_is_dropped,
            owning::everybody_can_tell_who_owns_a_store,
            owning::who_is_no_longer_the_owner_writes_what_a_client_writes,
            owning::an_owner_can_become_another_node,
            schedules::a_schedule_comes_back_as_it_was,
            schedules::a_schedule_is_created_once,
            schedules::a_change_follows_from_what_was_read,
            schedules::a_schedule_that_was_made_anew_is_another_one,
            schedules::a_schedule_that_is_gone_cannot_be_deleted,
            schedules::what_a_schedule_starts_is_refused_with_its_change,
            schedules::an_id_that_is_taken_starts_nothing_and_refuses_nothing,
            schedules::due_schedules_come_earliest_first,
            schedules::the_next_time_is_told_with_what_is_due,
            schedules::a_paused_schedule_is_never_due,
            schedules::schedules_that_wait_are_found,
            schedules::schedules_are_listed_by_id,
            schedules::a_schedule_knows_whether_its_last_instance_is_open,
            retention::everything_of_a_closed_instance_goes,
            retention::an_open_instance_stays,
            retention::those_that_closed_first_go_first,
            retention::only_what_is_wanted_goes,
            retention::a_piece_is_bounded,
            retention::a_long_history_goes_in_pieces,
            retention::the_id_of_a_deleted_instance_is_free,
        }
    };
}

/// One test for each promise, in the module that calls it. The attribute `test` of that module runs
/// asynchronous functions (`use tokio::test;`). See [`conformance`](crate::conformance).
#[macro_export]
macro_rules! conformance_tests {
    ($fresh:path) => {
        $crate::conformance_promises! { [$crate::conformance_tests_of] $fresh }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests_of {
    (($fresh:path) $($file:ident :: $promise:ident,)*) => {$(
        #[test]
        async fn $promise() {
            let store = $fresh().await;
            $crate::conformance::$file::$promise(&*store).await;
        }
    )*};
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;
    macro_rules! listed {
        (() $($file:ident :: $promise:ident,)*) => {
            vec![$((stringify!($file), stringify!($promise))),*]
        };
    }

    #[test]
    fn every_promise_is_in_the_list() {
        let files = [
            ("atomicity", include_str!("atomicity.rs")),
            ("identity", include_str!("identity.rs")),
            ("families", include_str!("families.rs")),
            ("history", include_str!("history.rs")),
            ("tasks", include_str!("tasks.rs")),
            ("messages", include_str!("messages.rs")),
            ("ledger", include_str!("ledger.rs")),
            ("actions", include_str!("actions.rs")),
            ("unresolved", include_str!("unresolved.rs")),
            ("bulk", include_str!("bulk.rs")),
            ("gates", include_str!("gates.rs")),
            ("policies", include_str!("policies.rs")),
            ("tokens", include_str!("tokens.rs")),
            ("pressure", include_str!("pressure.rs")),
            ("audit", include_str!("audit.rs")),
            ("graph_templates", include_str!("graph_templates.rs")),
            ("remote", include_str!("remote.rs")),
            ("looking", include_str!("looking.rs")),
            ("owning", include_str!("owning.rs")),
            ("schedules", include_str!("schedules.rs")),
            ("retention", include_str!("retention.rs")),
        ];
        let written: Vec<(&str, &str)> = files
            .into_iter()
            .flat_map(|(file, text)| text.lines().map(move |line| (file, line)))
            .filter_map(|(file, line)| Some((file, line.strip_prefix("pub async fn ")?)))
            .filter_map(|(file, line)| Some((file, line.split('(').next()?)))
            .collect();
        assert_eq!(crate::conformance_promises!([listed]), written);
    }
}
