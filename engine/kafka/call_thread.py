"""A thread for those calls of the client that may never return although they have a timeout."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import ClassVar, Final, TypeAlias

from ..errors import UnreachableError
from ..log import log

_Call: TypeAlias = Callable[[], object]
_Answer: TypeAlias = "SimpleQueue[BaseException | None]"

# A call that hangs keeps its thread and its client until it returns. With more of them in one process the
# caller waits itself, and the watchdog replaces it or ends the process.
MAX_HUNG: Final = 3


class CallThread:
    """Makes calls one after the other; the caller need not wait for one that hangs. Not thread-safe.

    A daemon thread, started by the first call, so that a hang does not keep the process from ending. After a
    hang nothing may be called on the client, nor on this object except `close`.
    """

    _hung: ClassVar[set[CallThread]] = set()  # those of this process whose call nobody waits for any more
    _noting: ClassVar = threading.Lock()

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: SimpleQueue[tuple[_Call, _Answer] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self.hangs = False

    def call(self, what: str, call: _Call, timeout_s: float) -> None:
        """Returns or raises what the call does. Raises UnreachableError if it takes longer than timeout_s."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        answer: _Answer = SimpleQueue()
        self._calls.put((call, answer))
        try:
            error = answer.get(timeout=timeout_s)
        except Empty:
            error = self._given_up(what, answer, timeout_s)
        if error is not None:
            raise error

    def close(self) -> None:
        """The thread ends, once its call has returned."""
        self._calls.put(None)

    def _given_up(self, what: str, answer: _Answer, timeout_s: float) -> BaseException | None:
        with self._noting:
            self.hangs = len(self._hung) < MAX_HUNG
            if self.hangs:
                self._hung.add(self)
        if not self.hangs:
            log.error(
                "%s has not returned for %.0f s; %d such calls hang already.", what, timeout_s, MAX_HUNG
            )
            return answer.get()
        return UnreachableError(f"{what} has not returned for {timeout_s:.0f} s. New clients take its place.")

    def _run(self) -> None:
        while (asked := self._calls.get()) is not None:
            call, answer = asked
            error: BaseException | None = None
            try:
                call()
            except BaseException as e:  # noqa: BLE001  # it is the caller's
                error = e
            answer.put(error)
            del asked, call, answer, error  # they would keep the client
        with self._noting:
            self._hung.discard(self)
