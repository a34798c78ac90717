"""The end of a driver's process, as far as the process can see it itself."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final

Told = Callable[[BaseException | None], None]

_TERMINATED: Final = 128 + signal.SIGTERM  # the exit code that shells give for it
_FORKED_ONLY: Final = 0x40  # PF_FORKNOEXEC of Linux: forked, and nothing was executed since
_FLAGS: Final = 6  # of /proc/self/stat behind the name: proc_pid_stat(5), field 9


class Terminated(SystemExit):
    """SIGTERM came."""

    def __str__(self) -> str:
        return "the process was terminated (SIGTERM)"


class ProcessEnd:
    """Tells once, when the process ends, with which error: None where it ends well.

    What it sees: an exception that nobody caught, sys.exit(), SIGTERM where nobody else handles it, and the
    end of the main module. What it cannot see: `raise SystemExit` outside of a block, os._exit, SIGKILL.
    Nothing is installed before `watch`.
    """

    def __init__(self) -> None:
        self._to_tell: list[Told] = []
        self._last: list[Callable[[], bool]] = []
        self._error: BaseException | None = None
        self._watches = False
        self._pid: int | None = None

    def tell(self, told: Told) -> None:
        """Call `told` when the process ends; in the order of these calls."""
        self.watch()
        self._to_tell.append(told)

    def last(self, finish: Callable[[], bool], *, watch: bool) -> None:
        """Call `finish` when all were told; where it gives False the process ends with exit code 1.

        watch: see `watch`; else the end of the process is all that is seen.
        """
        if watch:
            self.watch()
        self._register()
        self._last.append(finish)

    def note(self, error: BaseException) -> None:
        """The process is about to end with it, which is seen here alone."""
        self._error = error

    def watch(self) -> None:
        if self._watches:
            return
        self._watches = True
        excepthook, leave = sys.excepthook, sys.exit

        def on_exception(
            kind: type[BaseException], error: BaseException, trace: TracebackType | None
        ) -> None:
            self._error = error
            excepthook(kind, error, trace)

        def on_exit(status: Any = None, /) -> None:
            self._error = SystemExit(status)
            leave(status)

        def on_terminate(_number: int, _frame: FrameType | None) -> None:
            self._error = Terminated(_TERMINATED)
            raise self._error

        sys.excepthook = on_exception
        sys.exit = on_exit  # type: ignore[assignment]  # its type says that it never returns
        main_thread = threading.current_thread() is threading.main_thread()
        if main_thread and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, on_terminate)
        self._register()

    def _register(self) -> None:
        if self._pid is None:
            self._pid = os.getpid()
            atexit.register(self._end)

    def _end(self) -> None:
        if os.getpid() != self._pid:
            return  # of a fork: its end is not the job's
        for told in self._to_tell:
            told(self._error)
        self._to_tell.clear()
        failed = [finish for finish in self._last if not finish()]
        if failed:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)  # no handler of atexit can change the exit code otherwise


PROCESS_END: Final = ProcessEnd()


def is_program() -> bool:
    """Whether this process is a program of its own, whose end is the end of the job.

    It is not in a notebook or shell, nor in a fork of a longer-lived process, such as an Airflow task in a
    worker: that one leaves by os._exit, which calls nobody.
    """
    main = sys.modules.get("__main__")
    if getattr(main, "__file__", None) is None or hasattr(sys, "ps1"):
        return False
    try:
        stat = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace")
    except OSError:  # no Linux
        return multiprocessing.parent_process() is None
    return not int(stat.rpartition(")")[2].split()[_FLAGS]) & _FORKED_ONLY
