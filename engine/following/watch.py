"""The thread that reads the topics of a bus into a read model, in one process."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from typing import Final

from ..bus import End, Record, TopicPartition
from ..config import BusConfig
from ..errors import EngineError, StillReading, UnknownVersion, UnreachableError
from ..kafka.reader import KafkaReader
from ..log import log
from ..registry.pause import MOST_PAUSE_S
from .pace import Pace, Rests
from .read_model import ReadModel
from .subscriptions import require_bus
from .topics import FollowedTopics, topic_ids

TAKE: Final = 64  # records at a time: unpacking them is part of a slice
TAKE_S: Final = 0.5
CLOSE_S: Final = 3.0  # a thread that waits for brokers ends later, and with the process


class _BeginAgain(EngineError):
    """What was read is no longer what the topics hold."""


class Watch:
    """Follows a bus in a thread of this process while somebody asks. Thread-safe.

    Errors while it reads are raised to those who ask, and it tries again. Once it has read all, it keeps the
    model while brokers are away. It begins again from nothing if a topic is gone or another one, has lost its
    end, or was not read for so long that removals may have been compacted away.
    """

    def __init__(self, config: BusConfig, pace: Pace) -> None:
        self._config, self._pace = config, pace
        self._lock = threading.Lock()  # for what both the thread and those who ask change
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._asked_at = 0.0
        self._forget()

    def _forget(self) -> None:
        self._model = ReadModel(self._config)
        self._topics: FollowedTopics | None = None
        self._positions: dict[TopicPartition, int] = {}
        self._unread: set[TopicPartition] = set()
        self._is_ready = False
        self._answered_ms = 0  # when the brokers last answered
        self._error: EngineError | None = None  # why nothing can be read
        self._unknown: UnknownVersion | None = None  # why what is read must not be used

    # -- who asks

    def model(self) -> ReadModel:
        """See `Follower.model`."""
        with self._lock:
            self._asked_at = time.monotonic()
            if self._thread is None:
                self._stop = threading.Event()
                name = f"interlock-following-{self._config.name}"
                self._thread = threading.Thread(target=self._run, args=(self._stop,), name=name, daemon=True)
                self._thread.start()
            error = self._error or self._unknown
            if error is not None:
                raise error.with_traceback(None)
            if not self._is_ready:
                raise StillReading(*self._progress())
            return self._model

    def close(self) -> None:
        """See `Follower.close`."""
        with self._lock:
            thread = self._thread
            self._stop.set()
        if thread is not None:
            thread.join(CLOSE_S)

    def _progress(self) -> tuple[int, int]:
        """How many of about how many records are read: offsets count those that compaction removed, too."""
        topics = self._topics
        if topics is None:
            return 0, 0
        of = sum(max(0, end - topics.starts[tp]) for tp, end in topics.ends.items())
        left = sum(max(0, topics.ends[tp] - self._positions[tp]) for tp in self._unread.copy())
        return of - left, of

    # -- the thread

    def _run(self, stop: threading.Event) -> None:
        try:
            while not self._is_over(stop):
                try:
                    self._follow(stop)
                except EngineError as e:
                    self._note(e)
                    stop.wait(self._pace.retry_s)
        except Exception as e:  # noqa: BLE001  # raised to who asks next; then it is tried again
            log.error("The follower of %s ended.", self._config.describe(), exc_info=True)
            with self._lock:
                self._forget()
                self._error = EngineError(f"Following {self._config.describe()} failed: {e!r}.")
                self._thread = None

    def _is_over(self, stop: threading.Event) -> bool:
        """Whether the thread ends now. Whoever asks from then on starts another one."""
        with self._lock:
            is_idle = time.monotonic() - self._asked_at > self._pace.idle_s
            if not (stop.is_set() or is_idle):
                return False
            self._forget()
            self._thread = None
            return True

    def _note(self, error: EngineError) -> None:
        with self._lock:
            if isinstance(error, UnreachableError):  # also of one topic: the next look shows if it is gone
                self._be_away(error)
                return
            self._forget()
            self._error = None if isinstance(error, _BeginAgain) else error
        log.info("The follower of %s begins again: %s", self._config.describe(), error)

    def _be_away(self, error: EngineError) -> None:
        if self._is_ready:
            self._model.be_stale(self._answered_ms)
        else:
            self._error = error

    def _answered(self) -> None:
        """The brokers have answered just now."""
        now_ms = int(time.time() * 1000)
        if self._answered_ms and now_ms - self._answered_ms > MOST_PAUSE_S * 1000:
            raise _BeginAgain("the topics were not read for hours, so removals may have been compacted away.")
        self._answered_ms = now_ms
        self._model.be_stale(None)
        if self._error is not None:
            with self._lock:
                self._error = None

    def _follow(self, stop: threading.Event) -> None:
        """Read until the thread is over. Raises EngineError; then it can be called again, and continues."""
        self._look_at_topics()
        rests = Rests(self._pace, stop)
        probed_at = compared_at = time.monotonic()
        with closing(KafkaReader(self._config)) as reader:
            reader.read(self._positions)
            while not self._is_over(stop):
                items = reader.take(TAKE, TAKE_S)
                for item in items:
                    self._take(item, rests)
                now = time.monotonic()
                if items:
                    probed_at = now
                    self._answered()
                elif now - probed_at > self._pace.probe_s:
                    probed_at = now
                    if (reason := reader.outage()) is None:
                        self._answered()
                    else:
                        self._note(UnreachableError(reason))
                if now - compared_at > self._pace.compare_s and self._model.stale_since_ms is None:
                    compared_at = now
                    self._look_at_topics()

    def _look_at_topics(self) -> None:
        """Find where to read, or whether the topics are still the same ones."""
        if self._topics is not None:
            is_same = self._topics.ids == topic_ids(self._config)
            self._answered()
            if not is_same:
                raise _BeginAgain("a topic was created again.")
            return
        found = FollowedTopics.read(self._config)
        self._answered()
        with self._lock:
            self._topics, self._positions = found, dict(found.starts)
            self._unread = {tp for tp, end in found.ends.items() if found.starts[tp] < end}

    def _take(self, item: Record | End, rests: Rests) -> None:
        position = self._positions[item.source]
        if isinstance(item, End):
            self._positions[item.source] = max(position, item.offset)
            self._read_to_end(item, rests)
            return
        if item.offset < position:
            raise _BeginAgain(f"{item.source} gave offset {item.offset} after {position - 1}.")
        self._model.apply(item)
        self._positions[item.source] = item.offset + 1
        rests.after_work()

    def _read_to_end(self, end: End, rests: Rests) -> None:
        is_registry = end.source.topic == self._config.topic("subscription")
        while is_registry and self._model.read_lease():
            rests.after_work()
        self._model.apply(end)
        if is_registry:
            self._unknown = self._model.unknown()
        self._unread.discard(end.source)
        if not self._is_ready and not self._unread:
            require_bus(self._config, self._model.subscriptions)
            with self._lock:
                self._is_ready = True
