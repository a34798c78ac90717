"""Callbacks at the end of a process; each case runs in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

BEGIN = """
    import os, signal, sys
    from interlock.spark.completion.process_exit import PROCESS_EXIT, is_program
    PROCESS_EXIT.add_callback(lambda error: print("end", type(error).__name__, getattr(error, "code", error)))
    """


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "/dev/stdin"],
        input=textwrap.dedent(BEGIN) + textwrap.dedent(code),
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("code", "error", "exit_code"),
    [
        ("pass", "NoneType None", 0),
        ("sys.exit()", "SystemExit None", 0),
        ("sys.exit(3)", "SystemExit 3", 3),
        ("sys.exit('no input')", "SystemExit no input", 1),
        ("raise ValueError('no')", "ValueError no", 1),
        ("os.kill(os.getpid(), signal.SIGTERM)", "Terminated 143", 143),
    ],
)
def test_the_callback_gets_the_error_that_ended_the_process(code: str, error: str, exit_code: int) -> None:
    done = run(code)
    assert (done.stdout, done.returncode) == (f"end {error}\n", exit_code), done.stderr


def test_a_callback_that_fails_leaves_out_no_other_callback_or_finisher() -> None:
    done = run("""
        PROCESS_EXIT.add_callback(lambda error: {}["x"])
        PROCESS_EXIT.add_callback(lambda error: print("later"))
        PROCESS_EXIT.add_finisher(lambda: False, watch=True)
        """)
    assert (done.stdout, done.returncode) == ("end NoneType None\nlater\n", 1)
    assert "KeyError: 'x'" in done.stderr


def test_a_finisher_that_raises_fails_the_process_and_leaves_out_no_other() -> None:
    done = run("""
        PROCESS_EXIT.add_finisher(lambda: {}["x"], watch=True)
        PROCESS_EXIT.add_finisher(lambda: print("later") is None, watch=True)
        """)
    assert (done.stdout, done.returncode) == ("end NoneType None\nlater\n", 1)
    assert "KeyError: 'x'" in done.stderr


def test_a_raised_system_exit_is_not_seen_outside_a_block() -> None:
    assert run("raise SystemExit(3)").stdout == "end NoneType None\n"


def test_an_exception_that_a_hook_of_the_job_takes_fails_the_job_too() -> None:
    """OpenLineage/OpenLineage#4350: an application that failed is reported as complete.

    A job that logs uncaught exceptions replaces sys.excepthook, and may do so after the block.
    """
    done = run("""
        sys.excepthook = lambda kind, error, trace: print("logged", error)
        raise ValueError("no")
        """)
    assert (done.stdout, done.returncode) == ("logged no\nend ValueError no\n", 1), done.stderr


def test_a_job_with_a_hook_of_its_own_that_succeeds_has_succeeded() -> None:
    done = run("""
        sys.excepthook = lambda kind, error, trace: print("logged", error)
        try:
            raise ValueError("handled")
        except ValueError:
            pass
        """)
    assert (done.stdout, done.returncode) == ("end NoneType None\n", 0), done.stderr


def test_sys_exit_in_another_thread_ends_that_thread_and_not_the_process() -> None:
    done = run("""
        import threading
        thread = threading.Thread(target=sys.exit, args=(3,))
        thread.start()
        thread.join()
        """)
    assert (done.stdout, done.returncode) == ("end NoneType None\n", 0), done.stderr


def test_an_existing_handler_of_sigterm_is_kept() -> None:
    done = run("""
        print(signal.getsignal(signal.SIGTERM).__name__)
        """)
    assert done.stdout.startswith("on_terminate")
    ours = textwrap.dedent("""
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        from interlock.spark.completion.process_exit import PROCESS_EXIT
        PROCESS_EXIT.watch()
        print(signal.getsignal(signal.SIGTERM) is signal.SIG_IGN)
        """)
    done = subprocess.run([sys.executable, "-c", ours], capture_output=True, text=True, timeout=60)
    assert done.stdout == "True\n"


def test_the_end_of_a_fork_or_a_shell_is_not_the_end_of_the_job() -> None:
    done = run("""
        print(is_program(), flush=True)
        if not os.fork():
            print(is_program(), flush=True)
            os._exit(0)
        os.wait()
        """)
    assert done.stdout.splitlines()[:2] == ["True", "False"]
    shell = "from interlock.spark.completion.process_exit import is_program; print(is_program())"
    done = subprocess.run([sys.executable, "-c", shell], capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n"


def test_a_statement_that_a_shell_runs_is_no_program_although_the_shell_is_a_file() -> None:
    """Livy's sessions run statements so, and Zeppelin: the end of the shell may be hours after the block's.

    apache/livy: repl/src/main/resources/fake_shell.py.
    """
    done = run("""
        statements = {"is_program": is_program}
        exec(compile("def ends(): return is_program()", "<stdin>", "exec"), statements)
        exec(compile("print(is_program(), ends())", "<stdin>", "single"), statements)
        print(is_program())
        """)
    assert done.stdout.splitlines()[:2] == ["False False", "True"], done.stderr
