"""A bus on paper: its topics as docs/understand/engine/formats.md describes them, correct or with a fault."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from interlock.conditions import EMPTY, Condition, Match, State, Tick, firing_id, opened, step
from interlock.events.event import Event
from interlock.events.kafka import encode

from .log import Log, Rec

BUS = "paper"
START_MS = 1_800_000_000_000


@dataclass
class Wait:
    """A written registration."""

    subscription: str
    incarnation: str
    condition: Condition
    key: str | None
    kind: str
    r: int
    at_ms: int
    states: dict[str, State] = field(default_factory=dict)
    closed: bool = False


class Paper:
    """A bus with one trigger partition. Timestamps are in seconds after START_MS."""

    def __init__(self) -> None:
        self.log = Log(BUS)
        self._events: dict[tuple[str, int, int], tuple[Event, int]] = {}
        self.incomplete = False  # whether later firings are marked incomplete

    def write(
        self,
        kind: str,
        stamp: float,
        key: bytes | None,
        value: bytes | None,
        partition: int = 0,
        headers: Iterable[tuple[str, bytes | None]] = (),
    ) -> Rec:
        topic = f"{BUS}-{kind}"
        before = self.log.partitions.get((topic, partition), [])
        at = START_MS + round(stamp * 1000)
        record = Rec(topic, partition, len(before), at, key, value, tuple(headers))
        self.log.add(record)
        return record

    def event(
        self, type_: str, stamp: float, key: str = "k", partition: int = 0, id_: str = "", kind: str = "event"
    ) -> Rec:
        made = Event.of(type_, "/paper", id=id_ or f"{type_}{stamp}", subject=key)
        raw_key, value, headers = encode(made)
        record = self.write(kind, stamp, raw_key, value, partition, headers)
        self._events[record.topic, partition, record.offset] = (made, record.timestamp_ms)
        return record

    def list_topic(self, kind: str, stamp: float) -> None:
        """Lists a topic of another owner, and writes the source record of its partition 0."""
        topic = f"{BUS}-{kind}"
        self.write("subscription", stamp, b"bus", json.dumps({"v": 1, "topics": [topic]}).encode())
        self.write("subscription", stamp, f"source/{topic}/0".encode(), b"{}")

    def register(
        self,
        subscription: str,
        condition: Condition,
        *,
        key: str | None = None,
        kind: str = "one-shot",
        since: float = 0.0,
        stamp: float = 0.0,
        incarnation: str = "",
    ) -> Wait:
        incarnation = incarnation or f"{subscription}i"
        form = {
            "v": 1,
            "subscription": subscription,
            "kind": kind,
            "incarnation": incarnation,
            "condition": condition.to_json(),
            "key": key,
            "since_ms": START_MS + round(since * 1000),
            "max_keys": 100,
            "at_limit": "dead-letter",
        }
        record = self.write("subscription", stamp, f"{incarnation}:1".encode(), json.dumps(form).encode())
        made = Wait(subscription, incarnation, condition, key, kind, record.offset, record.timestamp_ms)
        if key is not None or not condition.keyed:
            made.states[key or ""] = opened(condition, record.timestamp_ms, form["since_ms"])
        return made

    def remove(self, wait: Wait, stamp: float, close: bool = True) -> None:
        self.write("subscription", stamp, f"{wait.incarnation}:1".encode(), None)
        if close:
            self.write("state", stamp, wait.incarnation.encode(), None)
            for key in wait.states:
                self.write("state", stamp, f"{wait.incarnation}/{key}".encode(), None)

    def match(
        self,
        wait: Wait,
        event: Rec,
        numbers: tuple[int, ...],
        stamp: float,
        *,
        key: str = "k",
        process: bool = True,
    ) -> Rec:
        """Writes the match of an event and, by default, the results of the trigger hop."""
        made, at = self._events[event.topic, event.partition, event.offset]
        value = msgspec.msgpack.encode(
            [
                1,
                event.topic,
                event.partition,
                event.offset,
                at,
                made,
                [[wait.r, wait.incarnation, numbers, key]],
            ]
        )
        record = self.write("trigger", stamp, None, value)
        if process:
            self.process(wait, event, numbers, stamp, key)
        return record

    def process(self, wait: Wait, event: Rec, numbers: tuple[int, ...], stamp: float, key: str = "k") -> None:
        made, at = self._events[event.topic, event.partition, event.offset]
        self._step(wait, Match(made, numbers, event.topic, event.partition, event.offset, at), stamp, key)

    def tick(self, wait: Wait, until: float, stamp: float, key: str = "k") -> None:
        self._step(wait, Tick(START_MS + round(until * 1000)), stamp, key)

    def _step(self, wait: Wait, given: Match | Tick, stamp: float, key: str) -> None:
        if wait.closed:
            return
        state, firings = step(wait.condition, wait.states.get(key, EMPTY), given)
        wait.states[key] = state
        place = f"{wait.incarnation}/{key}".encode()
        for firing in firings:
            made = firing_id(wait.incarnation, key, firing.outcome, firing.taking_part, firing.timer_ms)
            self.fire(wait, made, key, firing, stamp)
            if wait.kind == "one-shot":
                wait.closed = True
                self.write("state", stamp, wait.incarnation.encode(), self._meta(wait))
                self.write("state", stamp, place, None)
                return
        self.write("state", stamp, place, msgspec.msgpack.encode([1, wait.r, None, state.encode()]))

    @staticmethod
    def _meta(wait: Wait) -> bytes:
        return msgspec.msgpack.encode([1, wait.r, {}, wait.closed, True, None])

    def fire(self, wait: Wait, made: str, key: str, firing: Any, stamp: float) -> Rec:
        origins: dict[str, list[Mapping[str, Any]]] = {}
        for part in firing.taking_part:
            m = part.match
            origins.setdefault(part.label, []).append(
                {
                    "topic": m.topic,
                    "partition": m.partition,
                    "offset": m.offset,
                    "timestamp_ms": m.timestamp_ms,
                }
            )
        form = {
            "v": 1,
            "subscription": wait.subscription,
            "kind": wait.kind,
            "incarnation": wait.incarnation,
            "state": "fired",
            "firing": {
                "id": made,
                "outcome": firing.outcome,
                "key": key or None,
                "fired_at": "",
                "events": {},
                "origins": origins,
                "missing": list(firing.missing),
                "timer_ms": firing.timer_ms,
                "incomplete": self.incomplete,
            },
        }
        name = wait.subscription + ("" if wait.kind == "one-shot" else f"\0{made}")
        return self.write("action", stamp, name.encode(), json.dumps(form).encode())
