"""A sink that is away in real time: its port is closed, then it never answers, then it answers 503.

SINK_AWAY_SECONDS: how long. A minute without it, ten in `make sink-away`; SECONDS=3600 there is an hour.
"""

from __future__ import annotations

import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from interlock import event
from interlock.engine.delivery.firings import subscription_of
from interlock.engine.delivery.retry import Retry
from interlock.engine.delivery.sinks import SinkRecord
from interlock.engine.kafka.admin import Admin
from interlock.engine.kafka.topics import write_registry
from interlock.engine.records import encode_json

from tests.kit.arrivals import Arrival
from tests.kit.sinks import Behaviour, Received, Sink, answer, hang, reserved

from .test_delivering import PROCESS

AWAY_S = float(os.environ.get("SINK_AWAY_SECONDS") or 60)
TURN_S = AWAY_S / 3  # how long it is away in one way
KEYS = 4
EMITS = 10  # in a turn
PATIENT, IMPATIENT = "/patient", "/impatient"
RETRY = Retry(most_delay_s=min(300.0, AWAY_S / 20), timeout_s=min(30.0, AWAY_S / 30))
GIVE_UP_S = {PATIENT: 86_400.0, IMPATIENT: AWAY_S / 4}
REFUSED = "no connection: Connection refused"
SILENT = f"no complete answer within {RETRY.timeout_s:g} s"
OVERLOADED = "HTTP 503"
REASON = re.compile(r"given up after \d+ failed deliveries; the last failure: (.+)")


class Away:
    """Two sinks at one address, and a bus. By path: what fired, what arrived, and what was accepted."""

    def __init__(self, bench: Any, port: int, eventually: Callable[..., Any]) -> None:
        self.bench, self.port, self._eventually = bench, port, eventually
        self.arrived: dict[str, list[Arrival]] = defaultdict(list)
        self.accepted: dict[str, list[str]] = defaultdict(list)
        self.fired: dict[str, dict[str, Any]] = {path: {} for path in GIVE_UP_S}  # their records, by id
        self.emitted = 0
        self.subscriptions = {path: subscription_of(bench.config.deployment, path[1:]) for path in GIVE_UP_S}
        for path, name in self.subscriptions.items():
            policy = Retry(
                most_delay_s=RETRY.most_delay_s, timeout_s=RETRY.timeout_s, give_up_after_s=GIVE_UP_S[path]
            )
            url = f"http://127.0.0.1:{port}"
            record = SinkRecord(subscription=name, connection=url, path=path, retry=policy)
            write_registry(bench.config, {record.key: encode_json(record)})
            bench.subscribe(name, event("trade", by="data.trade"))

    @contextmanager
    def answering(self, behaviour: Callable[[], Behaviour], *, accepts: bool = False) -> Iterator[None]:
        def behave(received: Received) -> Behaviour:
            arrival = Arrival.of(received)
            self.arrived[received.path].append(arrival)
            if accepts:
                self.accepted[received.path].append(arrival.firing)
            return behaviour()

        with Sink(behave, port=self.port):
            yield

    def emit(self) -> None:
        for n in range(KEYS):
            self.bench.emit("trade", id=f"t{self.emitted + n}", subject="s", data={"trade": f"k{n}"})
        self.emitted += KEYS

    def fires_through_a_turn(self, failure: str) -> None:
        """Until the turn is over, and a firing was given up for this failure."""
        began = time.monotonic()
        for n in range(EMITS):
            self.emit()
            self.note_what_fired()
            due = began + (n + 1) * TURN_S / EMITS
            self._eventually("it is time", lambda due=due: time.monotonic() >= due, TURN_S + 60)
        self._eventually(f"given up for: {failure}", lambda: failure in self.failures())

    def note_what_fired(self) -> None:
        """Called now and then: within minutes, compaction removes the record of what is acknowledged."""
        for record in self.bench.records("action"):
            form = record.json()
            if form is not None and form["state"] == "fired":
                path = "/" + form["subscription"].rpartition("/")[2]
                self.fired[path].setdefault(form["firing"]["id"], record)

    def dead_letters(self) -> list[Any]:
        found: list[Any] = self.bench.records("dead-letter")
        return found

    def failures(self) -> set[str | None]:
        """The last failures in the reasons of the dead letters. None: one has another reason, or none."""
        matched = [
            REASON.fullmatch(dead_letter.header("interlock_reason") or "")
            for dead_letter in self.dead_letters()
        ]
        return {match and match[1] for match in matched}

    def all_fired(self) -> bool:
        self.note_what_fired()
        return all(len(records) == self.emitted for records in self.fired.values())

    def eventually_ended(self) -> None:
        """All firings of both sinks are acknowledged."""

        def ended() -> bool:
            self.note_what_fired()
            forms = [record.json() for record in self.bench.records("action")]
            return sum(form is not None and form["state"] == "acked" for form in forms) >= 2 * self.emitted

        self._eventually("every firing has ended", ended, 180 + AWAY_S)


@pytest.fixture
def away(bench: Any, eventually: Callable[..., Any]) -> Iterator[Away]:
    with reserved() as port:
        yield Away(bench, port, eventually)


@pytest.mark.long
def test_what_fires_while_the_sink_is_away_is_accepted_later_or_is_a_dead_letter_with_its_reason(
    away: Away, eventually: Callable[..., Any]
) -> None:
    bench = away.bench
    admin = Admin(bench.config.of_deliverers)
    first = bench.process(PROCESS)
    with bench.engine():
        with away.answering(lambda: answer(202), accepts=True):
            away.emit()
            away.eventually_ended()
        away.fires_through_a_turn(REFUSED)
        with away.answering(hang):
            second = bench.process(PROCESS)
            shares = [2, 2]
            eventually(
                "both have partitions", lambda: [len(m.partitions) for m in admin.group_members()] == shares
            )
            arrived = len(away.arrived[PATIENT])
            eventually("one is in flight", lambda: len(away.arrived[PATIENT]) > arrived)
            bench.sigkill(first)
            bench.process(PROCESS)
            away.fires_through_a_turn(SILENT)
        with away.answering(lambda: answer(503, {"retry-after": "1"})):
            bench.sigkill(second)
            away.fires_through_a_turn(OVERLOADED)
            away.emit()
            eventually("the last events have fired", away.all_fired)
        with away.answering(lambda: answer(202), accepts=True):
            away.eventually_ended()
    admin.close()
    fired = away.fired
    given_up = {dead_letter.json()["firing"]["id"]: dead_letter for dead_letter in away.dead_letters()}
    assert len(given_up) == len(away.dead_letters())
    for dead_letter in given_up.values():
        assert dead_letter.json()["subscription"] == away.subscriptions[IMPATIENT]
        age_ms = dead_letter.timestamp_ms - fired[IMPATIENT][dead_letter.json()["firing"]["id"]].timestamp_ms
        assert age_ms >= GIVE_UP_S[IMPATIENT] * 1000
    assert away.failures() >= {REFUSED, SILENT, OVERLOADED}
    assert None not in away.failures()
    assert sorted(away.accepted[PATIENT]) == sorted(fired[PATIENT])
    assert sorted([*away.accepted[IMPATIENT], *given_up]) == sorted(fired[IMPATIENT])
    for arrived_at in away.arrived.values():
        for key in {arrival.key for arrival in arrived_at}:
            sequences = [arrival.sequence for arrival in arrived_at if arrival.key == key]
            assert sequences == sorted(sequences)
