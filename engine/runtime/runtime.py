"""The process-wide runtime: one engine and one set of waits per bus and connection, each in its own thread.

Started by the first trigger that runs in a process. Never at import: Airflow forks, and a Kafka client
does not survive a fork, so runtimes are kept by process id.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing

from structlog.contextvars import bind_contextvars, bound_contextvars

from ..config import BusConfig
from ..errors import EngineError, UnreachableError
from ..identity import Identity
from ..kafka.admin import Admin
from ..kafka.bus import KafkaBus
from ..kafka.clients import ClientErrors
from ..kafka.topics import check, check_settings
from ..log import log
from ..protocol.loop import Engine
from ..waiting.notices import NoticeBoard
from ..waiting.waits import PART as WAITS
from ..waiting.waits import Waits
from .loop_thread import Part, Turn
from .metrics import Publisher, Sink
from .reporting import Account, Post, Teller
from .watchdog import Watchdog

STOP_TIMEOUT_S = 8.0
READ_AGAIN_S = 15.0
CHECK_S = 600.0  # between two looks at the topics' settings
ENGINE = "The engine"
_runtimes: dict[tuple[int, str, str, str], Runtime] = {}
_lock = threading.Lock()


class Runtime:
    """An engine and the waits of one bus in this process. Use `Runtime.of`.

    sink: where metrics go. with_waits: False for an engine alone; with_engine: False for waits alone.
    give_up: `Watchdog`'s; it must end the process.
    """

    def __init__(
        self,
        config: BusConfig,
        sink: Sink | None = None,
        *,
        with_waits: bool = True,
        with_engine: bool = True,
        give_up: Callable[[str], None] | None = None,
    ) -> None:
        self.config = config
        self.board = NoticeBoard()
        self.waits = Waits(config, self.board)
        self._account = Account()
        self._open: set[str] = set()  # transactional ids of engines that were not closed yet
        self._identity = Identity()
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._read_again_at = 0.0
        self._parts = []
        if with_engine:
            self._parts.append(Part(ENGINE, "interlock-engine", self._run_engine, config, self.board))
        if with_waits:
            self._parts.append(Part(WAITS, "interlock-waits", self._run_waits, config, self.board))
        helpers: dict[str, Callable[[threading.Event], None]] = {}
        helpers["watchdog"] = Watchdog(self._parts, give_up).run
        if sink is not None:
            helpers["metrics"] = Publisher(sink, self._account, self._counts, lambda: self.config).run
        self._helpers = [
            threading.Thread(target=self._help, args=(run,), name=f"interlock-{name}", daemon=True)
            for name, run in helpers.items()
        ]

    @classmethod
    def of(cls, config: BusConfig, sink: Sink | None = None, *, with_engine: bool = True) -> Runtime:
        """The runtime of this bus and connection in this process, started if need be. Returns at once.

        A connection that reads otherwise than before gives it new clients: open waits go on with them.
        sink, with_engine: of the call that starts it; where metrics go, and False for waits alone.
        """
        key = (os.getpid(), config.name, config.deployment, config.connection)
        with _lock:
            runtime = _runtimes.get(key)
            if runtime is None:
                runtime = _runtimes[key] = cls(config, sink, with_engine=with_engine)
                runtime.start()
                atexit.register(runtime.stop)
        runtime.use(config)
        return runtime

    def start(self) -> None:
        for part in self._parts:
            part.start()
        for thread in self._helpers:
            thread.start()

    def stop(self) -> None:
        """Leave the group and stop the threads, so that others take over at once. Bounded."""
        with self._lock:  # a changed connection must not begin new lives behind this
            for part in self._parts:
                part.stop()
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for part in self._parts:
            part.join(max(0.0, deadline - time.monotonic()))
        self._over.set()
        for thread in self._helpers:
            thread.join(max(0.0, deadline - time.monotonic()))

    def use(self, config: BusConfig) -> None:
        """Go on with this config: where it differs from the present one, all clients are made anew."""
        with self._lock:
            if config.identity == self.config.identity:
                return
            with bound_contextvars(bus=config.name):
                log.info("The connection of %s has changed; its clients are made anew.", config.describe())
            self.config = config
            for part in self._parts:
                part.use(config)

    def may_read_connection(self) -> bool:
        """Whether a troubled wait should read its connection again: one of them all, now and then."""
        with self._lock:
            now = time.monotonic()
            if now < self._read_again_at:
                return False
            self._read_again_at = now + READ_AGAIN_S
            return True

    def _help(self, run: Callable[[threading.Event], None]) -> None:
        bind_contextvars(bus=self.config.name)
        run(self._over)

    def _run_engine(self, turn: Turn) -> None:
        run_engine(
            turn.config,
            turn,
            turn.well,
            post=turn.post,
            account=self._account,
            not_closed=self._open,
            identity=self._identity,
        )

    def _run_waits(self, turn: Turn) -> None:
        self.waits.run(turn, turn.config, turn.well)

    def _counts(self) -> Mapping[str, int]:
        return {
            "delivered": self.waits.delivered,
            "restarts": sum(part.failures for part in self._parts),
            "watchdog_restarts": sum(part.replaced for part in self._parts),
        }


def has_engine(config: BusConfig) -> bool:
    """Whether an engine works on the bus; False also while the cluster does not answer."""
    try:
        with closing(Admin(config, ClientErrors())) as admin:
            return bool(admin.members())
    except EngineError:
        return False


def run_engine(
    config: BusConfig,
    stop: threading.Event,
    well: Callable[[], None] = lambda: None,
    *,
    post: Post = lambda _part, _text: None,
    account: Account | None = None,
    not_closed: set[str] | None = None,
    identity: Identity | None = None,
) -> None:
    """Run one engine until `stop`; EngineError ends it. TopicsError for settings that were altered, too.

    well: called in each pass with open partitions. post: told of what is wrong while it goes on. not_closed:
    transactional ids of this process's engines that were not closed; those that hang are fenced first, so
    that nothing they still commit takes effect beside this one. identity: of the process, where it runs more
    than one life. The thread's log lines carry the engine's id as the field `engine` from then on, those that
    tell why it ended included.
    """
    ids = set() if not_closed is None else not_closed
    identity = identity or Identity()
    if ids:  # what one of them works on has as good as ended it
        identity.renew()
    account = account or Account()
    check(config, dead_letters=False)
    checked = time.monotonic()
    bus = KafkaBus(config, identity=identity)
    bind_contextvars(bus=config.name, engine=bus.transactional_id)
    try:
        for hanging in sorted(ids):
            log.warning("Engine %s of this process hangs: its transactions are fenced.", hanging)
            bus.fence(hanging)
            ids.discard(hanging)
        ids.add(bus.transactional_id)
        engine = Engine(bus, config, stats=account.stats)
    except BaseException:
        bus.close()
        ids.discard(bus.transactional_id)
        raise
    teller = Teller(engine, post, account)
    try:
        while not stop.is_set():
            engine.run_pass()
            if stop.is_set():
                break
            if time.monotonic() - checked >= CHECK_S:
                _check_again(config)
                checked = time.monotonic()
            teller.look()
            if engine.is_open:
                well()
        _end(engine)
    finally:
        teller.end()
        engine.close()
        ids.discard(bus.transactional_id)


def _end(engine: Engine) -> None:
    """It was told to stop, and says so to who comes after it, if it can."""
    try:
        engine.end()
    except EngineError as e:
        log.info("The engine's end could not be noted: %s", e)


def _check_again(config: BusConfig) -> None:
    """TopicsError where a topic was altered. A cluster that does not answer stops no engine that works."""
    try:
        check_settings(config)
    except UnreachableError as e:
        log.warning("The topics' settings could not be looked at, which is tried again: %s", e)
