"""The thread that follows a bus: what it does when topics change, records go missing and brokers go away.

The brokers are played by a log in memory. tests/integration/engine/test_following.py has real ones.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from interlock import event
from interlock.engine.bus import End, Record, TopicPartition
from interlock.engine.errors import (
    EngineError,
    NotReadable,
    StillReading,
    TopicsError,
    UnknownVersion,
    UnreachableError,
)
from interlock.engine.following import watch as module
from interlock.engine.following.follower import Follower
from interlock.engine.following.pace import Pace
from interlock.engine.following.read_model import ReadModel
from interlock.engine.following.topics import FollowedTopics
from interlock.engine.records import BUS_KEY, BusRecord, Registration, encode_json

from local.polling import poll
from tests.unit.engine.following.logs import CONFIG
from tests.unit.engine.registry.registry_log import TOPIC, at, key_of

QUICK = Pace(retry_s=0.01, probe_s=0.02, compare_s=0.02)
BUS = at(0, BUS_KEY, encode_json(BusRecord(partitions=1)))
WAITS = [Registration.of(f"w{n}", event("t"), None, 0) for n in range(4)]
ACTION, STATE = TopicPartition("bus-action", 0), TopicPartition("bus-state", 0)


class Brokers:
    """The registry topic, and what the brokers do."""

    def __init__(self) -> None:
        self.log: list[Record] = [
            BUS,
            *(at(n, key_of(w), encode_json(w)) for n, w in enumerate(WAITS[:2], 1)),
        ]
        self.topics = FollowedTopics(
            {"bus-subscription": "id"}, {TOPIC: 0, STATE: 0, ACTION: 5}, {TOPIC: 3, STATE: 0, ACTION: 5}
        )
        self.failures: deque[EngineError] = deque()  # of the next reads
        self.outage: str | None = None
        self.missing = False
        self.hold = threading.Event()  # records arrive once it is set
        self.hold.set()
        self.never = threading.Event()
        self.readers = 0

    def asked(self, _: object) -> FollowedTopics:
        if self.outage is not None:
            raise UnreachableError(self.outage)
        if self.missing:
            raise TopicsError("Topic 'bus-subscription' is missing.")
        return self.topics


class Reader:
    def __init__(self, brokers: Brokers) -> None:
        self._brokers, self._at, self._ended = brokers, dict[TopicPartition, int](), False
        brokers.readers += 1

    def read(self, positions: Mapping[TopicPartition, int]) -> None:
        self._at = dict(positions)

    def take(self, most: int, _: float) -> list[Record | End]:
        brokers = self._brokers
        brokers.never.wait(0.001)  # as a real one waits for records
        if brokers.failures:
            raise brokers.failures.popleft()
        if brokers.outage is not None or not brokers.hold.is_set():
            return []
        position = self._at[TOPIC]
        arrived = [each for each in brokers.log if each.offset >= position][:most]
        self._at[TOPIC] = arrived[-1].offset + 1 if arrived else position
        if arrived or self._ended:
            self._ended = self._ended and not arrived
            return list(arrived)
        self._ended = True
        return [End(TOPIC, position)]

    def outage(self) -> str | None:
        return self._brokers.outage

    def close(self) -> None:
        pass


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    made = Brokers()
    monkeypatch.setattr(module, "KafkaReader", lambda _: Reader(made))
    monkeypatch.setattr(FollowedTopics, "read", made.asked)
    monkeypatch.setattr(module, "topic_ids", lambda _: made.asked(_).ids)
    return made


@pytest.fixture
def follower(brokers: Brokers) -> Iterator[Follower]:
    made = Follower(CONFIG, QUICK)
    yield made
    made.close()


def ready(follower: Follower) -> ReadModel:
    def model() -> ReadModel | None:
        try:
            return follower.model()
        except StillReading:
            return None

    return poll(model, 10)


def error(follower: Follower) -> EngineError:
    def raised() -> EngineError | None:
        try:
            follower.model()
        except StillReading:
            return None
        except EngineError as e:
            return e
        return None

    return poll(raised, 10)


def names(follower: Follower) -> list[str]:
    return [each.subscription for each in ready(follower).subscriptions.listed()]


def eventually(fact: Callable[[], Any]) -> None:
    assert poll(fact, 10)


def threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("interlock-following")]


def test_nothing_is_read_until_somebody_asks_and_the_answer_says_how_far_it_is(
    brokers: Brokers, follower: Follower
) -> None:
    assert (brokers.readers, threads()) == (0, [])
    brokers.hold.clear()
    with pytest.raises(StillReading):
        follower.model()

    def known() -> tuple[int, int] | None:
        try:
            follower.model()
        except StillReading as e:
            return (e.read, e.of) if e.of else None
        return None

    assert poll(known, 10) == (0, 3)
    brokers.hold.set()
    assert names(follower) == ["w0", "w1"]
    assert threads() == ["interlock-following-bus"]


def test_what_is_written_later_is_followed(brokers: Brokers, follower: Follower) -> None:
    version = ready(follower).version
    brokers.log.append(at(3, key_of(WAITS[0]), None))
    eventually(lambda: names(follower) == ["w1"])
    assert ready(follower).version > version


def test_the_thread_ends_when_nobody_asks_and_the_next_question_starts_another(
    brokers: Brokers,
) -> None:
    brokers.hold.clear()
    follower = Follower(CONFIG, replace(QUICK, idle_s=0.0))
    for number in (1, 2):
        with pytest.raises(StillReading):
            follower.model()
        eventually(lambda: not threads())
        assert brokers.readers <= number


def test_a_follower_that_is_closed_has_no_thread_and_reads_again_when_it_is_asked(
    brokers: Brokers, follower: Follower
) -> None:
    assert names(follower) == ["w0", "w1"]
    follower.close()
    assert threads() == []
    follower.close()
    assert names(follower) == ["w0", "w1"]
    assert brokers.readers == 2


def test_while_brokers_are_away_the_model_says_since_when_and_is_used(
    brokers: Brokers, follower: Follower
) -> None:
    assert ready(follower).stale_since_ms is None
    brokers.outage = "no answer"
    eventually(lambda: ready(follower).stale_since_ms)
    assert names(follower) == ["w0", "w1"]
    brokers.log.append(at(3, key_of(WAITS[2]), encode_json(WAITS[2])))
    brokers.outage = None
    eventually(lambda: names(follower) == ["w0", "w1", "w2"])
    assert ready(follower).stale_since_ms is None


@pytest.mark.parametrize(
    "failure",
    [UnreachableError("it lost its brokers"), NotReadable("bus-state", "no leader")],
    ids=str,
)
def test_after_an_error_another_client_continues_where_the_last_one_ended(
    brokers: Brokers, follower: Follower, failure: EngineError
) -> None:
    model = ready(follower)
    brokers.failures.append(failure)
    brokers.log.append(at(3, key_of(WAITS[2]), encode_json(WAITS[2])))
    eventually(lambda: names(follower) == ["w0", "w1", "w2"])
    assert ready(follower) is model
    assert brokers.readers == 2


def test_brokers_that_do_not_answer_at_first_are_an_error_until_they_do(
    brokers: Brokers, follower: Follower
) -> None:
    brokers.outage = "no answer"
    assert isinstance(error(follower), UnreachableError)
    brokers.outage = None
    eventually(lambda: not isinstance(_raised(follower), UnreachableError))
    assert names(follower) == ["w0", "w1"]


def _raised(follower: Follower) -> EngineError | None:
    try:
        follower.model()
    except EngineError as e:
        return e
    return None


def _cut(brokers: Brokers) -> None:
    brokers.log = [BUS, at(1, key_of(WAITS[3]), encode_json(WAITS[3]))]
    again = Reader.take

    def from_the_start(reader: Reader, most: int, timeout_s: float) -> list[Record | End]:
        Reader.take = again  # type: ignore[method-assign]
        reader._at[TOPIC] = 0  # as a client whose position is beyond the end
        return again(reader, most, timeout_s)

    Reader.take = from_the_start  # type: ignore[method-assign]


def _made_again(brokers: Brokers) -> None:
    brokers.log = [BUS, at(1, key_of(WAITS[3]), encode_json(WAITS[3]))]
    brokers.topics = replace(brokers.topics, ids={"bus-subscription": "another"})


def _gone_and_made_again(brokers: Brokers) -> None:
    brokers.failures.append(NotReadable("bus-subscription", "unknown topic"))
    _made_again(brokers)


def _not_read_for_hours(brokers: Brokers) -> None:
    brokers.log = [BUS, at(1, key_of(WAITS[3]), encode_json(WAITS[3]))]
    module.time = _Later(8 * 3600)  # type: ignore[assignment]


class _Later:
    """The time of a machine that was suspended."""

    def __init__(self, by_s: float) -> None:
        self._by_s = by_s

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def time(self) -> float:
        return time.time() + self._by_s


@pytest.mark.parametrize("happens", [_cut, _made_again, _gone_and_made_again, _not_read_for_hours])
def test_it_begins_again_from_nothing_when_the_topics_hold_something_else(
    brokers: Brokers, follower: Follower, happens: Callable[[Brokers], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "time", time)
    before = ready(follower)
    happens(brokers)

    def is_another() -> bool:
        raised = _raised(follower)
        return raised is None and [e.subscription for e in follower.model().subscriptions.listed()] == ["w3"]

    eventually(is_another)
    assert ready(follower).version != before.version


def test_a_topic_that_is_deleted_is_an_error_until_it_is_there_again(
    brokers: Brokers, follower: Follower
) -> None:
    assert names(follower) == ["w0", "w1"]
    brokers.missing = True
    assert isinstance(error(follower), TopicsError)
    _made_again(brokers)
    brokers.missing = False
    eventually(lambda: _raised(follower) is None)
    assert names(follower) == ["w3"]


def test_a_bus_that_does_not_exist_is_an_error(brokers: Brokers, follower: Follower) -> None:
    brokers.log = [at(0, key_of(WAITS[0]), encode_json(WAITS[0]))]
    brokers.topics = replace(brokers.topics, ends={**brokers.topics.ends, TOPIC: 1})
    found = error(follower)
    assert isinstance(found, TopicsError)
    assert "topics create --bus bus" in str(found)


def test_a_record_of_a_later_version_is_an_error_until_it_is_removed(
    brokers: Brokers, follower: Follower
) -> None:
    later = encode_json(msgspec.structs.replace(WAITS[2], v=99))
    brokers.log.append(at(3, key_of(WAITS[2]), later))
    assert isinstance(error(follower), UnknownVersion)
    brokers.log.append(at(4, key_of(WAITS[2]), None))
    eventually(lambda: _raised(follower) is None)
    assert names(follower) == ["w0", "w1"]
    assert brokers.readers == 1


def test_a_fault_of_its_own_is_logged_and_raised_and_the_next_question_tries_again(
    brokers: Brokers, follower: Follower, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(ReadModel, "apply", lambda *_: 1 / 0)
        assert "division by zero" in str(error(follower))
        eventually(lambda: not threads())
    assert "The follower of bus 'bus'" in caplog.text
    assert "division by zero" in str(_raised(follower))
    eventually(lambda: _raised(follower) is None)
