"""Knative Eventing control plane contract: event delivery."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import pytest
from interlock.engine.bus import TopicPartition
from interlock.engine.delivery.context import DelivererContext, DelivererEnvironment
from interlock.engine.delivery.deliverer import Deliverer
from interlock.engine.delivery.parts import PARTS, DelivererParts
from interlock.engine.delivery.retry import Retry
from interlock.engine.delivery.sinks import SinkRecord
from interlock.engine.records import encode_json
from interlock.engine.sending.posts import HttpPosts, PostOptions
from interlock.engine.sending.target import SinkTarget

from tests.kit.bus import Alone
from tests.kit.posting import LOOPBACK
from tests.kit.sinks import Sink, answer
from tests.unit.engine.delivery.firings import SINK
from tests.unit.engine.delivery.setting import CONFIG, Bus, Setting

SPECIFICATION = "https://github.com/knative/specs/blob/main/specs/eventing/control-plane.md"
REPLY = {"ce-specversion": "1.0", "ce-id": "r1", "ce-source": "/sink", "ce-type": "done"}
MOST_TURNS, TURN_MS, WAIT_S = 500, 100, 0.2


class Delivering(Setting):
    """A deliverer over brokers in memory, and real requests to a sink."""

    def __init__(self, sink: Sink, **retry: Any) -> None:
        self._retry = Retry(jitter=0, **retry)
        self._ended = threading.Event()
        self._http = HttpPosts(
            CONFIG, lambda _: SinkTarget(url=sink.url), self._ended.set, PostOptions(LOOPBACK)
        )
        super().__init__()
        self.cluster.create("b-event", 1)

    def define(self, **members: Any) -> None:
        record = SinkRecord(
            subscription=SINK, connection="c", path="/orders", replies=True, retry=self._retry, **members
        )
        self.cluster.append(TopicPartition("b-subscription", 0), record.key, encode_json(record))

    def begin(self, parts: DelivererParts = PARTS) -> None:
        self.bus = Bus(self.cluster, Alone(self.cluster), "d1")
        seconds = DelivererEnvironment(lambda: 0.0, lambda: self.cluster.now_ms / 1000, lambda: 0.0)
        context = DelivererContext.of(self.bus, CONFIG, replace(parts, environment=seconds))
        self.deliverer = Deliverer(context, self._http)

    def until(self, holds: Callable[[], object]) -> None:
        """Time passes, and the deliverer works, until this holds."""
        for _ in range(MOST_TURNS):
            self.passes(1, TURN_MS)
            if holds():
                return
            if self.deliverer.schedule.in_flight:
                self._ended.wait(WAIT_S)
                self._ended.clear()
        raise AssertionError("it does not hold")

    def __enter__(self) -> Self:
        self._http.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()


@pytest.mark.section(
    "Event Delivery", "a failed delivery is tried again, `retry` times; then it is a dead letter"
)
@pytest.mark.parametrize("retries", [0, 3])
def test_what_cannot_be_delivered_becomes_a_dead_letter(retries: int) -> None:
    """With where it was sent and what came back, as Knative's dispatcher says it."""
    with Sink(lambda _: answer(503, {}, b"no room")) as sink, Delivering(sink, tries=retries + 1) as setting:
        setting.fire("f1")
        setting.until(lambda: setting.committed == 1)
        (dead_letter,) = setting.written("b-dead-letter")
        assert len(sink.received) == retries + 1
        destination = f"{sink.url}/orders"
    assert (dead_letter["interlock_stage"], dead_letter["interlock_attempts"]) == (
        "delivery",
        str(retries + 1),
    )
    assert dead_letter["interlock_error_destination"] == destination
    assert dead_letter["interlock_error_code"] == "503"
    assert base64.b64decode(dead_letter["interlock_error_data"]) == b"no room"


@pytest.mark.section("Event Delivery", "a delivery that succeeds, at once or after retries, is complete")
def test_a_delivery_that_succeeds_is_complete() -> None:
    with Sink() as sink, Delivering(sink) as setting:
        sink.answer(answer(503), answer(404), answer(202))
        setting.fire("f1")
        setting.until(lambda: setting.committed == 1)
        assert len(sink.received) == 3
        assert len({got.attributes["id"] for got in sink.received}) == 1
    assert setting.written("b-dead-letter") == []


@pytest.mark.section("DeliverySpec", "a Retry-After is waited for, if it is longer than the delay")
@pytest.mark.parametrize(("stated", "most", "waited"), [("9", 3600, 9), ("9", 4, 4), ("0", 3600, 0.2)])
def test_retry_after_is_waited_for(stated: str, most: int, waited: float) -> None:
    with Sink() as sink, Delivering(sink, retry_after_most_s=most) as setting:
        sink.answer(answer(429, {"retry-after": stated}), answer(202))
        setting.fire("f1")
        setting.until(lambda: len(sink.received) == 1 and setting.deliverer.schedule.in_flight == 0)
        began = setting.cluster.now_ms
        setting.until(lambda: len(sink.received) == 2)
        assert waited * 1000 - TURN_MS <= setting.cluster.now_ms - began <= waited * 1000 + 2 * TURN_MS


@pytest.mark.section(
    "Content Based Routing", "a reply is stored like other events, with the end of its delivery"
)
def test_a_reply_is_stored() -> None:
    with Sink(lambda _: answer(200, REPLY)) as sink, Delivering(sink) as setting:
        setting.fire("f1")
        setting.until(lambda: setting.committed == 1)
    (reply,) = setting.written("b-event")
    assert (reply["ce_id"], reply["ce_source"], reply["ce_type"]) == ("r1", "/sink", "done")


@pytest.mark.section("Content Based Routing", "while a reply cannot be stored, its delivery is not complete")
def test_a_delivery_whose_reply_cannot_be_stored_is_not_complete() -> None:
    with Sink(lambda _: answer(200, REPLY)) as sink, Delivering(sink) as setting:
        setting.bus.refused = "b-event"
        setting.fire("f1")
        setting.until(lambda: sink.received)
        for _ in range(100):
            setting.passes(1, TURN_MS)
        assert (setting.committed or 0, setting.written("b-event")) == (0, [])
        setting.bus.refused = ""
        setting.until(lambda: setting.committed == 1)
        assert (len(setting.written("b-event")), len(sink.received)) == (1, 1)
