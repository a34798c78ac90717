"""The end of a process, as it sees it itself: each case is a process of its own."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

BEGIN = """
    import os, signal, sys
    from interlock.spark.completion.process_exit import PROCESS_END, is_program
    PROCESS_END.tell(lambda error: print("told", type(error).__name__, getattr(error, "code", error)))
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
    ("code", "told", "exit_code"),
    [
        ("pass", "NoneType None", 0),
        ("sys.exit()", "SystemExit None", 0),
        ("sys.exit(3)", "SystemExit 3", 3),
        ("sys.exit('no input')", "SystemExit no input", 1),
        ("raise ValueError('no')", "ValueError no", 1),
        ("os.kill(os.getpid(), signal.SIGTERM)", "Terminated 143", 143),
    ],
)
def test_the_end_is_told_with_its_error(code: str, told: str, exit_code: int) -> None:
    done = run(code)
    assert (done.stdout, done.returncode) == (f"told {told}\n", exit_code), done.stderr


def test_an_exit_outside_of_a_block_that_is_raised_by_hand_is_not_seen() -> None:
    assert run("raise SystemExit(3)").stdout == "told NoneType None\n"


def test_a_handler_of_sigterm_that_is_there_is_left_alone() -> None:
    done = run("""
        print(signal.getsignal(signal.SIGTERM).__name__)
        """)
    assert done.stdout.startswith("on_terminate")
    ours = textwrap.dedent("""
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        from interlock.spark.completion.process_exit import PROCESS_END
        PROCESS_END.watch()
        print(signal.getsignal(signal.SIGTERM) is signal.SIG_IGN)
        """)
    done = subprocess.run([sys.executable, "-c", ours], capture_output=True, text=True, timeout=60)
    assert done.stdout == "True\n"


def test_a_fork_is_no_program_of_its_own_and_neither_is_a_shell() -> None:
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
