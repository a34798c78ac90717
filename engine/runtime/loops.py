"""The loop threads of one bus in a process, with their watchdog: started and stopped together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from structlog.contextvars import bind_contextvars, bound_contextvars

from ..bus import Bus
from ..config import BusConfig
from ..errors import UnreachableError
from ..identity import ProcessName
from ..kafka.bus import KafkaBus
from ..kafka.topics import check_settings
from ..log import log
from ..waiting.notices import NoticeBoard
from .watchdog import Watchdog

STOP_TIMEOUT_S: Final = 8.0
CHECK_S: Final = 600.0  # between two checks of the topics' settings


@dataclass
class MemberProcess:
    """What the successive engines, or deliverers, of a process share.

    open_ids: the transactional ids of the buses that were not closed yet. end_process: see `Watchdog`.
    """

    identity: ProcessName = field(default_factory=ProcessName)
    open_ids: set[str] = field(default_factory=set)
    end_process: Callable[[str], None] | None = None

    def make_bus(self, config: BusConfig) -> Bus:
        return KafkaBus(config, identity=self.identity)

    def open_bus(self, config: BusConfig) -> Bus:
        """The bus of the process's next engine or deliverer. Call `closed` when it is closed.

        An earlier bus that was not closed is one whose thread hangs. Its id is fenced first, so that it can
        commit nothing more. From here on the thread's log lines carry the new id, even the line about the
        error that ends the run.
        """
        if self.open_ids:  # a record on which a thread hangs is as suspect as one on which a process died
            self.identity.renew()
        bus = self.make_bus(config)
        bind_contextvars(bus=config.name, **{config.members.removesuffix("s"): bus.transactional_id})
        try:
            for hanging in sorted(self.open_ids):
                log.warning("%s %s of this process hangs; fencing its transactions.", config.member, hanging)
                bus.fence(hanging)
                self.open_ids.discard(hanging)
        except BaseException:
            bus.close()
            raise
        self.open_ids.add(bus.transactional_id)
        return bus

    def closed(self, bus: Bus) -> None:
        """Note that a bus of this process was closed."""
        self.open_ids.discard(bus.transactional_id)


class Loops:
    """The loops of one bus in this process, each in its own thread.

    watchdog: of these loops. helpers: {name: what else runs in a thread of its own until its event is set}.
    """

    stop_s = STOP_TIMEOUT_S  # how long `stop` waits

    def __init__(
        self,
        config: BusConfig,
        board: NoticeBoard,
        watchdog: Watchdog,
        helpers: Mapping[str, Callable[[threading.Event], None]],
    ) -> None:
        self.config, self.board = config, board
        self._watchdog, self._loops = watchdog, [*watchdog.loops]
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._helpers = [
            threading.Thread(target=self._run_helper, args=(run,), name=f"interlock-{name}", daemon=True)
            for name, run in {**helpers, "watchdog": watchdog.run}.items()
        ]

    @property
    def problem(self) -> str | None:
        """Why the process should be restarted (see `Watchdog.problem`). For any thread; never blocks."""
        return self._watchdog.problem

    @property
    def is_ready(self) -> bool:
        """Whether all are members of their groups with recovered partitions. For any thread; never blocks."""
        return all(loop.is_ready for loop in self._loops)

    def start(self) -> None:
        for loop in self._loops:
            loop.start()
        for thread in self._helpers:
            thread.start()

    def stop(self) -> None:
        """Leave the group and stop the threads, so that others take over at once. Takes at most `stop_s`."""
        with self._lock:  # else `use` could start a new run after `stop`
            for loop in self._loops:
                loop.stop()
        deadline = time.monotonic() + self.stop_s
        for loop in self._loops:
            loop.join(max(0.0, deadline - time.monotonic()))
        self._stopped.set()
        for thread in self._helpers:
            thread.join(max(0.0, deadline - time.monotonic()))

    def ask_to_stop(self) -> None:
        """Like `stop`, without waiting for the threads."""
        with self._lock:
            for loop in self._loops:
                loop.stop()
        self._stopped.set()

    def use(self, config: BusConfig) -> None:
        """Continue with this config. If it differs from the current one, all clients are created again."""
        with self._lock:
            if config.contents == self.config.contents:
                return
            with bound_contextvars(bus=config.name):
                log.info("The connection of %s has changed; creating new clients.", config.describe())
            self.config = config
            for loop in self._loops:
                loop.use(config)

    def _run_helper(self, run: Callable[[threading.Event], None]) -> None:
        bind_contextvars(bus=self.config.name)
        run(self._stopped)


def check_again(config: BusConfig) -> None:
    """Raises TopicsError if a topic was altered. Only logs that the cluster does not answer."""
    try:
        check_settings(config)
    except UnreachableError as e:
        log.warning("The topics' settings could not be checked; the check is retried: %s", e)
