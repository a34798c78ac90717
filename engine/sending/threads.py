"""Threads for calls that block, which end with the process."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class DaemonThreads(Executor):
    """Runs calls in at most `most` threads; further ones wait, first come, first served.

    The process can end although a call hangs. With a ThreadPoolExecutor it cannot: the interpreter waits for
    each of its threads, however long that takes.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._changed = threading.Condition()
        self._calls: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._threads = self._idle = 0
        self._is_over = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Make the call in a thread. RuntimeError after `shutdown`, or if no thread can be started."""
        future: Future[T] = Future()
        with self._changed:
            if self._is_over:
                raise RuntimeError(f"The threads {self._name} have ended.")
            if self._idle <= len(self._calls) and self._threads < self._most:
                self._start()
            self._calls.append((future, partial(fn, *args, **kwargs)))
            self._changed.notify()
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:  # noqa: ARG002
        """Take no more calls. Waiting calls are still made, or cancelled. Never waits for running calls."""
        with self._changed:
            self._is_over = True
            cancelled = [*self._calls] if cancel_futures else []
            if cancel_futures:
                self._calls.clear()
            self._changed.notify_all()
        for future, _ in cancelled:
            future.cancel()

    def _start(self) -> None:
        number = self._threads + 1
        thread = threading.Thread(target=self._run, name=f"{self._name}-{number}", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            if not self._threads:  # else another one makes the call later
                raise
        else:
            self._threads = number

    def _run(self) -> None:
        while self._make_next():
            pass

    def _make_next(self) -> bool:
        """Make the next call, when there is one. False if there will be none."""
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._calls or self._is_over)
            self._idle -= 1
            if not self._calls:
                return False
            future, call = self._calls.popleft()
        if future.set_running_or_notify_cancel():
            try:
                result = call()
            except BaseException as e:  # noqa: BLE001  # the caller gets it
                future.set_exception(e)
            else:
                future.set_result(result)
        return True
