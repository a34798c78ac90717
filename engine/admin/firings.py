"""Firings in the action topic, for administrators: which there are, and which events took part in them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from ...conditions import Condition, ConditionError, Seen, State
from ...conditions.evaluate.seen import remembers
from ..bus import Record, TopicPartition
from ..config import BusConfig
from ..errors import EngineError, RecordError
from ..reading.sources import read_to_end
from ..records import ActionRecord, decode_json, partition_of
from ..registry.registry import Registered
from ..waiting.open_firings import OpenFirings
from .subscriptions import MOST_NAMED

MOST_FIRINGS: Final = 200_000  # so many of the action topic's latest records are read


class _Identity(msgspec.Struct):
    source: str
    id: str


class _Fired(msgspec.Struct):
    id: str
    fired_at: str
    events: dict[str, list[_Identity]]


class _Action(msgspec.Struct):
    """What is read of an ActionRecord: which events took part."""

    incarnation: str
    state: str
    firing: _Fired


class Firings:
    """The firings of a durable subscription in the action topic: the open ones, and their events.

    taken: {(source, id): a text for the firing in which the event took part}, for the given events only.
    sink: where they are delivered, as a text; "" if they are dispatched.
    """

    def __init__(self, registered: Registered, events: Iterable[Seen], sink: str = "") -> None:
        self._registered, self._sink = registered, sink
        self._events = {seen.event.identity for seen in events}
        self._open = OpenFirings()
        self.taken: dict[tuple[str, str], str] = {}

    @classmethod
    def read(
        cls,
        config: BusConfig,
        registered: Registered,
        partitions: int,
        events: Iterable[Seen],
        sink: str = "",
    ) -> Firings:
        """From the latest MOST_FIRINGS records of the action topic."""
        found = cls(registered, events, sink)
        every = [TopicPartition(config.topic("action"), number) for number in range(partitions)]
        for record in read_to_end(config, every, MOST_FIRINGS // partitions):
            found.follow(record)
        return found

    def follow(self, record: Record) -> None:
        """Process the next record of the action topic."""
        self._open.follow(record)
        name, durable, _ = (record.key or b"").decode("utf-8", "replace").partition("\0")
        own = durable and name == self._registered.registration.subscription
        if not own or record.value is None or record.fault or not self._events:
            return
        try:
            action = msgspec.json.decode(record.value, type=_Action)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return  # OpenFirings logs it
        if action.incarnation != self._registered.incarnation:
            return  # for the present meaning of the subscription, the events count again
        if self._sink:
            taken, not_yet = "it was delivered, given up or skipped", "it was not delivered yet"
        else:
            taken, not_yet = "its run was created or skipped", "its run was not created yet"
        so_far = taken if action.state == "acked" else not_yet
        text = f"firing {action.firing.id} of {action.firing.fired_at}; {so_far}"
        for events in action.firing.events.values():
            for event in events:
                if (event.source, event.id) in self._events:
                    self.taken[event.source, event.id] = text

    @property
    def open_count(self) -> int:
        """How many firings are open, at most 10,000."""
        return self._open.count(self._registered.registration.subscription)

    def open(self) -> Iterable[str]:
        """A sentence about the open firings."""
        name = self._registered.registration.subscription
        if oldest := self._open.oldest(name, 1, ()):
            since = datetime.fromtimestamp(oldest[0].timestamp_ms / 1000, UTC).isoformat(timespec="seconds")
            count = f"{self.open_count}, the oldest of {since}"
            if self._sink:
                yield (
                    f"It has fired; open firings that were not delivered yet: {count}. They go to "
                    f"{self._sink}: if they wait for long, the log of the process that delivers says why."
                )
                return
            yield (
                f"It has fired; open firings that were not dispatched yet: {count}. The dispatcher waits for "
                "room in its target, or cannot create a run for a firing: see the log of its task."
            )


def repeats(
    condition: Condition, idle: Mapping[str, bytes], events: Iterable[Seen]
) -> dict[tuple[str, str], str]:
    """{(source, id): ""} of the events that count as seen for their key.

    idle: {key: encoded state} of the keys without partial matches (see `Pending`).
    """
    if not idle:
        return {}
    states: dict[str, State | None] = {}
    found = {}
    for seen in events:
        for key in {matcher.key_of(seen.event) or "" for matcher in condition.matchers}:
            if key not in idle:
                continue
            if key not in states:
                states[key] = _decoded(idle[key])
            state = states[key]
            if state is not None and remembers(
                state.seen, state.last_ms, seen.event.identity, seen.timestamp_ms
            ):
                found[seen.event.identity] = ""
    return found


def _decoded(data: bytes) -> State | None:
    try:
        return State.decode(data)
    except ConditionError:
        return None


def firing_of(config: BusConfig, name: str, partitions: int) -> str | None:
    """A sentence about the firing of a one-shot subscription in the action topic; None if there is none.

    name: with or without the deployment; or a part of the name, which is searched in the latest MOST_FIRINGS
    firings. Raises EngineError if several names contain it.
    """
    topic = config.topic("action")
    for whole in (name, f"{config.deployment}/{name}"):
        tp = TopicPartition(topic, partition_of("one-shot", whole, "", partitions))
        if found := _firings(config, [tp], None, frozenset({whole}).__contains__):
            return _firing_sentence(whole, found[whole])
    every = [TopicPartition(topic, number) for number in range(partitions)]
    found = _firings(config, every, MOST_FIRINGS // partitions, lambda key: name in key)
    if len(found) > 1:
        names = ", ".join(map(repr, sorted(found)[:MOST_NAMED]))
        raise EngineError(f"{name!r} matches {len(found)} fired subscriptions: {names}. Give one name.")
    return next((_firing_sentence(*each) for each in found.items()), None)


def _firings(
    config: BusConfig,
    partitions: Collection[TopicPartition],
    most: int | None,
    wanted: Callable[[str], bool],
) -> dict[str, bytes]:
    """{one-shot subscription: value of its last firing}, in the last `most` records of each partition."""
    found: dict[str, bytes] = {}
    for record in read_to_end(config, partitions, most):
        key = (record.key or b"").decode("utf-8", "replace")
        # The key of a durable subscription's firing contains "\0" and the firing's id.
        if record.value is not None and not record.fault and "\0" not in key and wanted(key):
            found[key] = record.value
    return found


def _firing_sentence(name: str, value: bytes) -> str:
    try:
        action = decode_json(ActionRecord, value, f"The firing of {name!r}")
    except RecordError as error:
        return str(error)
    firing = action.firing
    taken = "its task has received it" if action.state == "acked" else "its task has not received it yet"
    return f"{name!r} fired at {firing.fired_at}: {firing.outcome}, id {firing.id}; {taken}."
