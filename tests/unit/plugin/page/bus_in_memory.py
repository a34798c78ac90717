"""A bus whose read model is fed by hand: what is registered, pending and has fired."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from interlock.conditions import EMPTY, Condition, Match, step
from interlock.engine.bus import End, Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.errors import StillReading
from interlock.engine.following.read_model import ReadModel
from interlock.engine.records import (
    BUS_KEY,
    ActionRecord,
    BusRecord,
    FiringRecord,
    MetaRecord,
    Registration,
    RegistrationKey,
    encode_json,
    encode_msgpack,
    partition_of,
    state_key,
)
from interlock.events import Event

NOW_MS: Final = 1_795_165_920_000  # 2026-11-20T09:12:00Z
CONFIG: Final = BusConfig(name="b", client={"bootstrap.servers": "one:1"})
PARTITIONS: Final = 2


class BusInMemory:
    """`follower` stands for the follower of the bus."""

    def __init__(self) -> None:
        self.model = ReadModel(CONFIG)
        self.reading: tuple[int, int] | None = None
        self._offsets: dict[TopicPartition, int] = {}
        self._write("subscription", 0, BUS_KEY, encode_json(BusRecord(partitions=PARTITIONS)))

    def follower(self, _: BusConfig) -> Any:
        bus = self

        class Follower:
            def model(self) -> ReadModel:
                if bus.reading is not None:
                    raise StillReading(*bus.reading)
                return bus.model

            def close(self) -> None:
                pass

        return Follower()

    def register(
        self, name: str, condition: Condition, key: str | None = None, kind: Any = "one-shot"
    ) -> Registration:
        made = Registration.of(name, condition, key, 0, kind=kind)
        self._write("subscription", 0, RegistrationKey(made.incarnation, "n").encode(), encode_json(made))
        return made

    def match(self, registration: Registration, happened: Event, at_ms: int = NOW_MS) -> None:
        """The wait holds this event, and no other."""
        condition = registration.build_condition()
        matchers = tuple(n for n, each in enumerate(condition.matchers) if each.accepts(happened))
        state, _ = step(condition, EMPTY, Match(happened, matchers, "b-event", 0, 0, at_ms))
        self._meta(registration, closed=False, held=state.encode())

    def fire(
        self, registration: Registration, *events: Event, firing: str = "f", state: Any = "fired"
    ) -> None:
        """The subscription fires by these events; state "acked": and the firing was taken."""
        forms = {"orders": [each.to_json_dict() for each in events]}
        origin = {"topic": "b-event", "partition": 0, "offset": 0, "timestamp_ms": NOW_MS - 1000}
        origins = {"orders": [origin for _ in events]}
        fired = FiringRecord(
            id=firing, outcome="met", key=registration.key, fired_at="2026-11-20T09:12:00+00:00",
            events=forms, origins=origins,
        )  # fmt: skip
        action = ActionRecord(
            subscription=registration.subscription, kind=registration.kind,
            incarnation=registration.incarnation, state=state, firing=fired,
        )  # fmt: skip
        self._write("action", self._partition(registration), action.key, encode_json(action))
        if registration.kind == "one-shot":
            self._meta(registration, closed=True, held=None)

    def _meta(self, registration: Registration, *, closed: bool, held: bytes | None) -> None:
        only = None if held is None else (None, held)
        value = encode_msgpack(MetaRecord(1, 1, {}, closed, True, only))
        self._write("state", self._partition(registration), state_key(registration.incarnation, None), value)

    def _partition(self, registration: Registration) -> int:
        return partition_of(registration.kind, registration.subscription, registration.key or "", PARTITIONS)

    def _write(self, kind: str, partition: int, key: bytes, value: bytes) -> None:
        tp = TopicPartition(CONFIG.topic(kind), partition)
        offset = self._offsets.get(tp, 0)
        self._offsets[tp] = offset + 1
        self.model.apply(Record(tp, offset, NOW_MS, key, value, None))
        self.model.apply(End(tp, offset + 1))


def rows_by_name(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {row["name"]: row for row in answer["rows"]}
