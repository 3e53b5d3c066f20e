"""What a plain run keeps of files whose tests each start workers, servers or processes; `-m heavy` runs the rest."""

from __future__ import annotations

KEPT = {
    "tests/announcing/test_consumer.py": (
        "test_messages_are_done_and_refusals_are_put_aside_with_code_and_body[rabbitmq]",
        "test_no_body_kills_it",
    ),
    "tests/cli/test_demo.py": ("test_every_scene_ends_as_it_has_to",),
    "tests/desk/test_cancel_without_workers.py": ("test_r112_what_was_cancelled_without_a_worker",),
    "tests/desk/test_every_status.py": (
        "test_the_table_has_every_way",
        "test_every_operation_answers_as_the_table_says",
        "test_a_second_call_gets_the_same_answer",
    ),
    "tests/django/test_django_workers.py": ("test_a_run_starts_after_its_request_has_committed",),
    "tests/django/test_joining.py": ("test_runs_take_part_in_djangos_transactions[psycopg]", "test_runs_are_in_one"),
    "tests/django/test_spine.py": ("test_the_projects_sagas_in_its_test_database[psycopg]", "test_djangos_own"),
    "tests/faults/test_b11_caps.py": ("test_b11_a_step_that_kills_its_process", "test_b11_messages_under_new_ids"),
    "tests/faults/test_b14_signal_races.py": (
        "test_b14_each_wait_takes_one_signal_whenever_it_comes",
        "test_b14_of_ten_senders_at_once_one_is_heard[False]",
    ),
    "tests/faults/test_b17_undo_trouble.py": (
        "test_b17_when_an_undo_is_used_up",
        "test_b17_an_undo_whose_process_dies_after_its_effect",
    ),
    "tests/faults/test_b18_result_backend.py": (
        "test_b18_no_step_waits_for_a_result_backend_that_is_out_of_order[_frozen_redis]",
    ),
    "tests/faults/test_b20_two_coordinators.py": (
        "test_b20_of_ten_coordinators_one_wins_each_transition_and_sends_each_order_once[repeatable read]",
    ),
    "tests/faults/test_b23_delays.py": ("test_r104_of_many_sweepers_one_wakes_each_timer[2]",),
    "tests/faults/test_backlog.py": (),
    "tests/faults/test_timers_and_brokers.py": ("test_a_worker_does_not_notice",),
    "tests/inline/test_workers.py": (
        "test_each_step_is_a_task_with_a_request_of_its_own",
        "test_hundreds_of_steps_take_a_few_deliveries",
        "test_hooks_and_the_tasks_own_retries_work_as_ever",
        "test_a_cancel_is_honoured_at_the_next_step",
        "test_a_step_that_kills_its_process_is_executed_again_as_a_message",
    ),
    "tests/lanes/test_workers.py": (
        "test_a19_one_of_each_lane_is_active",
        "test_a_worker_killed_between_its_commit_and_the_lane",
    ),
    "tests/observing/test_traces.py": ("test_one_trace_from_the_caller",),
    "tests/progress/test_workers.py": (
        "test_progress_is_seen_while_the_step_runs_and_its_last_word_with_its_end[prefork]",
    ),
    "tests/runtime/test_bounds.py": (
        *("test_a_job_that_hangs", "test_while_a_job_hangs", "test_when_the_broker_answers"),
        "test_a_job_that_ends_its_thread",
    ),
    "tests/runtime/test_checkout.py": ("test_steps_retries_undos_and_signals", "test_every_pool"),
    "tests/runtime/test_lost_messages.py": (
        "test_copies_of_every_message_change_nothing",
        "test_without_a_broker_a_start_returns",
    ),
    "tests/runtime/test_trouble.py": (
        "test_a_killed_worker_loses_its_lease",
        "test_a_cancel_is_seen_by_the_running_step",
        "test_a_step_over_its_time_out_fails",
    ),
    "tests/transactional/test_prompt.py": ("test_a_sweeper_takes_it_up_where_the_caller_died",),
    "tests/transactional/test_workers.py": ("test_the_row_is_there_once",),
}
"""By file, how the names of its tests begin. A test of another file is in a plain run unless something else says no."""

LEFT_OUT = {
    "tests/docs/test_pages.py": ("test_the_code_of_a_page_is_a_file_that_python_runs[docs",),
    "tests/examples/test_change_examples.py": (
        "test_a_saga_is_changed_while_its_runs_are_alive[versions]",
        "test_a_long_step_tells_how_far_it_is[progress]",
    ),
    "tests/examples/test_encryption_example.py": ("test_",),
    "tests/examples/test_existing_project.py": (
        "test_the_tasks_behave_outside_a_saga_as_before",
        "test_the_lines_of_the_two_terminals_do_what_the_page_says[examples",
    ),
    "tests/examples/test_graph_example.py": ("test_the_example_does",),
    "tests/examples/test_inline_example.py": ("test_",),
    "tests/examples/test_joins_example.py": ("test_",),
    "tests/inline/test_inline_steps.py": ("[mariadb]",),
    "tests/runtime/test_foreign_workers.py": ("test_a_remote_step_that_nobody_takes",),
    "tests/runtime/test_pools.py": ("test_a_step_longer_than_the_lease_starts_once",),
    "tests/runtime/test_start_check.py": (
        "test_the_worker_is_asked_for_its_own_pool",
        "test_the_workers_own_connections_are_not_taken",
        "test_a_worker_without_a_database_says_so",
    ),
    "tests/store/test_processes.py": ("test_a_restart_shorter_than_our_patience",),
    "tests/support/test_private_servers.py": ("test_a_killed_rabbitmq",),
    "tests/transactional/test_steps.py": ("[mariadb",),
    "tests/transactional/test_trouble.py": ("test_a_database_that_is_away_for_a_while", "[mariadb"),
}
"""By file, how the names of tests begin, or their cells, that a plain run leaves out: long, or repeating others."""


def is_left_out(nodeid: str) -> bool:
    """The test's file is in `KEPT`, and the test is not; or it is in `LEFT_OUT`."""
    path, _, name = nodeid.partition("::")
    if path in KEPT and not name.startswith(KEPT[path]):
        return True
    cell = name[name.find("[") :] if "[" in name else ""
    return any((cell if each.startswith("[") else name).startswith(each) for each in LEFT_OUT.get(path, ()))
