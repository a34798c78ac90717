"""Tells the bus that this process's engine ends again and again, so that `health` shows the reason.

An engine that cannot start owns no partition, so it can commit no problem record. Its process writes a
failing record to the registry instead, without a transaction (docs/understand/engine/formats.md).
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from ..config import BusConfig
from ..errors import EngineError
from ..kafka.topics import write_registry
from ..log import log
from ..protocol.context import Clocks
from ..records import FailingRecord, encode_json

LEAST: Final = 3  # failures
# Brokers that restart make engines fail for seconds, which needs no administrator.
AFTER_S: Final = 30.0
AGAIN_S: Final = 60.0  # between two writes; health ignores a record that is much older
HEALTHY_S: Final = 30.0  # then the record is removed
MOST_CHARS: Final = 2000
MACHINE: Final = Clocks()
Write: TypeAlias = Callable[[BusConfig, Mapping[bytes, bytes | None]], None]


def _in_background(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="interlock-failures", daemon=True).start()


class EngineFailures:
    """Counts the failures of a process's engine. Call its methods in the engine's thread.

    process: the name of the process in the key of its record. write: blocks until the record is written. run:
    makes a call in another thread; raises RuntimeError if none can be started.
    """

    def __init__(
        self,
        process: str,
        write: Write = write_registry,
        run: Callable[[Callable[[], None]], None] = _in_background,
        clocks: Clocks = MACHINE,
    ) -> None:
        self._key = f"failing/{process}".encode()
        self._write, self._run = write, run
        self._monotonic, self._wall = clocks.monotonic, clocks.wall
        self._count, self._since_ms = 0, 0
        self._began = self._failed_at = 0.0
        self._written_at: float | None = None
        self._well_since: float | None = None  # the first good pass after the last failure
        self._lock = threading.Lock()  # for the next two
        self._next: tuple[BusConfig, bytes | None] | None = None  # the value to write next
        self._is_writing = False

    @property
    def lasting_s(self) -> float:
        """For how long the engine has failed without a healthy time in between; 0 if it has not."""
        return self._failed_at - self._began if self._count else 0.0

    def failed(self, config: BusConfig, error: Exception) -> None:
        """The engine has ended with an error."""
        self._failed_at, self._well_since = self._monotonic(), None
        if not self._count:
            self._began, self._since_ms = self._failed_at, int(self._wall() * 1000)
        self._count += 1
        if self._count < LEAST or self._failed_at - self._began < AFTER_S:
            return
        if self._written_at is not None and self._failed_at - self._written_at < AGAIN_S:
            return
        self._written_at = self._failed_at
        record = FailingRecord(
            deployment=config.deployment,
            host=socket.gethostname(),
            count=self._count,
            since_ms=self._since_ms,
            text=(str(error) or repr(error))[:MOST_CHARS],
        )
        self._send(config, encode_json(record))

    def healthy(self, config: BusConfig) -> None:
        """Called in each pass in which the engine is fine."""
        if not self._count:
            return
        now = self._monotonic()
        if self._well_since is None:  # the recovery, which may have taken long, does not count
            self._well_since = now
        if now - self._well_since < HEALTHY_S:
            return
        self._count = 0
        if self._written_at is not None:
            self._written_at = None
            self._send(config, None)

    def _send(self, config: BusConfig, value: bytes | None) -> None:
        """Have the record written, after an earlier one that is being written.

        With a thread for each, a slow record could arrive after the null that removes it.
        """
        with self._lock:
            self._next = config, value  # in place of one that was not written yet
            if self._is_writing:
                return
            self._is_writing = True
        try:
            self._run(self._write_all)
        except RuntimeError as e:  # no thread can be started
            self._is_writing = False
            log.debug("The failures of the engine could not be recorded: %s", e)

    def _write_all(self) -> None:
        try:
            while (taken := self._take()) is not None:
                config, value = taken
                try:
                    self._write(config, {self._key: value})
                except EngineError as e:
                    log.debug("The failures of the engine could not be recorded: %s", e)
        except BaseException:
            self._is_writing = False
            raise

    def _take(self) -> tuple[BusConfig, bytes | None] | None:
        with self._lock:
            taken, self._next = self._next, None
            self._is_writing = taken is not None
            return taken
