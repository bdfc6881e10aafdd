"""Mistakes that take a process, a terminal or a moment of their own to make, and their tests."""

from __future__ import annotations

from tests.mistakes.table import ShownElsewhere

ELSEWHERE = [
    ShownElsewhere(
        "run while activities and children are in other modules",
        "engine/test_run.py::test_run_serves_what_its_code_calls_wherever_that_is_written",
        now="works: what is called is found by name",
        before="waited for ever",
    ),
    ShownElsewhere(
        "a worker that runs without its block",
        "engine/test_lifetimes.py::test_a_worker_without_a_block_opens_itself_and_closes",
        now="works: it is opened and closed",
        before="waited for ever and served nothing",
    ),
    ShownElsewhere(
        "Ctrl-C in run",
        "engine/test_run.py::test_ctrl_c_gives_back_what_is_under_way",
        now="the same, and: what instance 'i' has done is kept: run('i', ...) goes on with it",
        before="KeyboardInterrupt",
    ),
    ShownElsewhere(
        "run what waits for a signal, or for an activity that fails again and again",
        "engine/test_run.py::test_a_run_that_waits_for_what_may_not_come_says_so",
        now="run() goes on waiting: i (f 1.0.0) waits for signal 'go' since ...",
        before="nothing",
    ),
    ShownElsewhere(
        "a blocking client in async code, beside the engine that should do the work",
        "engine/test_lifetimes.py::test_a_call_that_holds_up_a_loop_for_long_says_so",
        now="a call of this BlockingClient has waited for 5 s on the thread of an event loop",
        before="waited for ever, without a word",
    ),
    ShownElsewhere(
        "a new parameter without a default",
        "core/test_determinism_check.py::test_a_new_parameter_without_a_default_is_told_for_what_it_is",
        now="The stored input has no value for a parameter that is new, f(y): give it a default",
        before="advised ctx.patched, which cannot help",
    ),
    ShownElsewhere(
        "an activity that is renamed",
        "core/test_determinism_check.py::test_a_renamed_activity_is_told_how_to_keep_its_name",
        now='If "a" was only renamed, keep the name that is recorded: @activity(name="a").',
        before="advised ctx.patched",
    ),
    ShownElsewhere(
        "one file imported under two names",
        "test_registry.py::test_one_file_has_one_digest_however_it_is_imported",
        now="one digest of the code",
        before="two, so that equal code seemed to have changed",
    ),
    ShownElsewhere(
        "children that start each other without end",
        "engine/test_runaway.py",
        now="stopped at 100 levels, with the name of the limit",
        before="nothing, for ever",
    ),
    ShownElsewhere(
        "the failure of a child of a child of a child",
        "engine/test_children.py::test_the_failure_of_the_lowest_child_is_told_at_the_top",
        now="the first and the last of them, and why the last one failed",
        before="all of them, so that the reason was cut off",
    ),
    ShownElsewhere(
        "a name that perdure check does not find in its file",
        "cli/test_check.py::test_a_name_that_is_not_there_is_refused",
        now="there is no orchestration or decider 'ordr' in shop.py",
        before="0 findings",
    ),
    ShownElsewhere(
        "sys.exit in an activity",
        "engine/test_activities.py::test_what_would_end_a_program_fails_the_call_and_nothing_else",
        now="fails the call; the worker lives",
        before="the same",
    ),
    ShownElsewhere(
        "an activity in a process, and a program without `if __name__`",
        "jobs/test_processes.py::test_a_main_script_without_a_guard_is_told_so",
        now="a process of an activity imports this main module: put what starts one under `if "
        '__name__ == "__main__":`',
        before="",
    ),
    ShownElsewhere(
        "a blocking client after a fork",
        "test_forks.py",
        now="refused in the child, with what to do",
        before="hung",
    ),
    ShownElsewhere(
        "an activity is called like a function",
        "engine/test_activities.py::test_outside_an_orchestration_an_activity_is_a_plain_function",
        now="works: outside an orchestration it is the function that it was, which tests use; "
        "nothing is recorded",
        before="the same",
    ),
    ShownElsewhere(
        "the same start twice",
        "engine/test_starts.py::test_an_equal_start_joins_a_live_instance",
        now="works: both have a handle of the one instance",
        before="the same",
    ),
    ShownElsewhere(
        "values of many types",
        "test_codec.py::test_a_supported_value_comes_back_equal_and_of_the_same_type",
        now="works: pydantic models, dataclasses, enums, Decimal, times, bytes, tuples, sets, UUID "
        "come back equal and of the same type",
        before="the same",
    ),
    ShownElsewhere(
        "one definition, or a module, instead of a list",
        "test_registry.py::test_one_definition_or_a_module_needs_no_list",
        now="works: Engine(url, flow), Engine(url, shop)",
        before="TypeError: 'module' object is not iterable",
    ),
    ShownElsewhere(
        "a list as the default of a parameter of an orchestration",
        "core/test_orchestration_defaults.py"
        "::test_what_one_instance_adds_to_a_default_is_not_there_for_the_next",
        now="works: it is made anew for each execution",
        before="nothing; what one instance put into it was there for the next, and for its replay",
    ),
    ShownElsewhere(
        "an orchestration that catches everything and never ends",
        "turns/test_undead.py::test_a_coroutine_that_would_loop_for_ever_lets_the_process_end",
        now="the log says: catches everything and would not end; catch Exception, not "
        "BaseException; and the process ends",
        before="the same, and the process never ended",
    ),
    ShownElsewhere(
        "the environment, the hash of a text or the order of a set decides",
        "cli/test_dev.py::test_code_that_cannot_be_replayed_is_said_when_it_is_loaded",
        now="perdure check, perdure dev: ... cannot be replayed: hand it in when the instance is "
        "started, or read it in an activity",
        before="nothing; blocked after a crash",
    ),
    ShownElsewhere(
        "the order of a set decides, in a test",
        "testing/test_planted_bugs.py::test_the_order_of_a_set_is_found_by_a_replay",
        now="a trial fails the test that ran it, with the line and both sides",
        before="nothing; blocked after a crash",
    ),
    ShownElsewhere(
        "a database or a role that the server does not have",
        "store/test_postgres_trouble.py",
        now="has no such database; create it",
        before="the same",
    ),
    ShownElsewhere(
        "an SQLite that is old, and two programs that write",
        "store/test_opening.py",
        now="a warning with what to do",
        before="the same",
    ),
    ShownElsewhere(
        "a target of perdure worker that is not there, is broken or empty",
        "cli/test_targets.py",
        now="one line each, with what is there",
        before="the same",
    ),
    ShownElsewhere(
        "a system without fork, file locks and clocks of its own (Windows)",
        "test_portability.py",
        now="all names can be imported, and a SQLite store is refused in one sentence",
        before="ImportError: cannot import name 'orchestration'",
    ),
]
