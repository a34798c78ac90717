"""Callbacks at the end of a driver's process, with the error that ended it."""

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

from ...events.visible import visible_logger

log = visible_logger(__name__)

ExitCallback = Callable[[BaseException | None], None]

_TERMINATED: Final = 128 + signal.SIGTERM  # a shell's exit code for it
_FORKED_ONLY: Final = 0x40  # PF_FORKNOEXEC of Linux: forked without a later exec
_FLAGS: Final = 6  # index after the name in /proc/self/stat: proc_pid_stat(5), field 9
_STATEMENT: Final = "<stdin>"  # the file name of code that was typed or sent to a shell


class Terminated(SystemExit):
    """Raised by our handler of SIGTERM."""

    def __str__(self) -> str:
        return "the process was terminated (SIGTERM)"


class ProcessExit:
    """Calls back once, when the process ends, with its error: None after a success.

    It sees an uncaught exception and sys.exit() of the main thread, SIGTERM unless other code handles it, and
    the end of the main module. It does not see `raise SystemExit` outside a block, os._exit and SIGKILL. No
    hook is installed before `watch`.
    """

    def __init__(self) -> None:
        self._callbacks: list[ExitCallback] = []
        self._finishers: list[Callable[[], bool]] = []
        self._error: BaseException | None = None
        self._watches = False
        self._excepthook: object = None
        self._pid: int | None = None

    def add_callback(self, callback: ExitCallback) -> None:
        """Calls `callback` when the process ends, after the callbacks that were added before."""
        self.watch()
        self._callbacks.append(callback)

    def add_finisher(self, finish: Callable[[], bool], *, watch: bool) -> None:
        """Calls `finish` after all callbacks; if it returns False or raises, the process ends with
        exit code 1.

        watch: also install the hooks (`watch`), which see the error.
        """
        if watch:
            self.watch()
        self._register()
        self._finishers.append(finish)

    def record(self, error: BaseException) -> None:
        """Records the error that is about to end the process, for one that no hook sees."""
        self._error = error

    def watch(self) -> None:
        """Installs the hooks that see the error: sys.excepthook, sys.exit, and SIGTERM if it is free."""
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
            if threading.current_thread() is threading.main_thread():  # another thread ends only itself
                self._error = SystemExit(status)
            leave(status)

        def on_terminate(_number: int, _frame: FrameType | None) -> None:
            self._error = Terminated(_TERMINATED)
            raise self._error

        sys.excepthook = self._excepthook = on_exception
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
            return  # the end of a fork is not the end of the job
        if self._error is None and self._watches and sys.excepthook is not self._excepthook:
            # The job's own hook replaced ours. Python has noted the exception before it called that.
            self._error = getattr(sys, "last_value", None)
        for callback in self._callbacks:
            try:
                callback(self._error)
            except Exception:
                log.exception("an event of this process's end was not made; the others follow")
        self._callbacks.clear()
        failed = False
        for finish in self._finishers:
            try:
                failed = not finish() or failed
            except Exception:
                log.exception("the last events of this process were not sent")
                failed = True  # a required one may be among them
        if failed:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)  # an atexit handler cannot change the exit code in another way


PROCESS_EXIT: Final = ProcessExit()


def is_program() -> bool:
    """Whether the end of this process is the end of the job.

    False in a notebook or shell, also of Livy and Zeppelin, and in a fork of a longer-lived process, such as
    an Airflow task in a worker: that one leaves by os._exit, which calls no handlers.
    """
    main = sys.modules.get("__main__")
    if getattr(main, "__file__", None) is None or hasattr(sys, "ps1") or _in_statement():
        return False
    try:
        stat = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace")
    except OSError:  # not Linux
        return multiprocessing.parent_process() is None
    return not int(stat.rpartition(")")[2].split()[_FLAGS]) & _FORKED_ONLY


def _in_statement() -> bool:
    """Whether code that was sent to a shell calls this: the main module of such a shell may be a file."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename == _STATEMENT:
            return True
        frame = frame.f_back
    return False
