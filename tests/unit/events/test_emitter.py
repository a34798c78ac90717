"""The emitter's errors; emitting itself is tested on a real broker."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from interlock.events import EmitError, Emitter, Event
from interlock.events.sizes import MAX_EVENT_BYTES
from interlock.plugin.broker.ports import free_ports

SECRET = "hunter2-canary"


@pytest.fixture
def closed_port() -> int:
    [port] = free_ports(1)
    return port


def test_an_unreachable_broker_gives_an_error_with_topic_servers_cause_and_events(closed_port: int) -> None:
    servers = f"127.0.0.1:{closed_port}"
    client = {"bootstrap.servers": servers, "client.id": SECRET}
    with Emitter(client, "some-event") as emitter, pytest.raises(EmitError) as caught:
        emitter.emit_all([Event.of("t", "/s", id="1"), Event.of("t", "/s", id="2")], timeout_s=1)
    text = str(caught.value)
    assert f"topic some-event at {servers}" in text
    assert "2 of 2 events were not acknowledged by topic" in text
    assert "Connection refused" in text
    assert "emit again with the same id" in text
    assert SECRET not in text
    assert caught.value.undelivered == (("/s", "1"), ("/s", "2"))


def test_each_emit_has_its_own_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    timeouts_ms: list[int] = []

    class Client(Lingering):
        def __init__(self, settings: dict[str, Any]) -> None:
            super().__init__(settings)
            timeouts_ms.append(settings["delivery.timeout.ms"])

    monkeypatch.setattr("confluent_kafka.Producer", Client)
    with Emitter({"bootstrap.servers": "nowhere"}, "t") as emitter:
        for timeout_s in (3.0, 0.5, 0.5):
            emitter.emit(Event.of("type", "/test"), timeout_s)
    assert timeouts_ms == [3000, 500]


@pytest.mark.parametrize("setting", ["sasl.mechanism", "no.such.setting", "security.protocol", "acks"])
def test_settings_that_the_client_refuses_give_an_error_without_their_values(setting: str) -> None:
    client = {"bootstrap.servers": "127.0.0.1:1", setting: SECRET, "security.protocol": "sasl_plaintext"}
    client[setting] = SECRET
    with pytest.raises(EmitError) as caught:
        Emitter(client, "some-event").emit(Event.of("t", "/s"), timeout_s=1)
    assert "some-event" in str(caught.value)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_connect_refuses_what_emit_would_and_does_not_wait(closed_port: int) -> None:
    with Emitter({"bootstrap.servers": "a:1", "no.such": "x"}, "t") as emitter, pytest.raises(EmitError):
        emitter.connect()
    with Emitter({"bootstrap.servers": f"127.0.0.1:{closed_port}"}, "t") as emitter:
        emitter.connect(1.0)
        with pytest.raises(EmitError, match="within 1 s"):
            emitter.emit(Event.of("type", "/test"), timeout_s=1.0)


def test_a_client_without_servers_is_refused_at_once() -> None:
    with pytest.raises(EmitError, match=r"has no bootstrap\.servers"):
        Emitter({}, "some-event")


@pytest.mark.parametrize(("given", "most"), [({}, MAX_EVENT_BYTES), ({"message.max.bytes": "5000"}, 5000)])
def test_an_event_beyond_the_limit_is_refused_before_anything_connects(
    closed_port: int, given: dict[str, str], most: int
) -> None:
    client = {"bootstrap.servers": f"127.0.0.1:{closed_port}", **given}
    with Emitter(client, "some-event") as emitter, pytest.raises(EmitError) as caught:
        emitter.emit(Event.of("t", "/s", id="1", data=b"x" * most, datacontenttype="a/b"), timeout_s=30)
    assert f"the limit is {most}" in str(caught.value)
    assert "dataref" in str(caught.value)
    assert "emit again" not in str(caught.value)
    assert caught.value.undelivered == (("/s", "1"),)


def test_an_error_of_a_batch_names_the_event_of_its_reason_and_what_to_do_about_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It gave the reason of one event without its id, and the remedy of that one alone."""

    class Losing(Lingering):
        def flush(self, timeout_s: float) -> int:
            while self.held:
                self.held.pop()(KafkaError(KafkaError._MSG_TIMED_OUT), None)  # type: ignore[arg-type]
            return 0

    monkeypatch.setattr("confluent_kafka.Producer", Losing)
    client = {"bootstrap.servers": "nowhere", "message.max.bytes": "5000"}
    large = Event.of("t", "/s", id="large", data=b"x" * 5000, datacontenttype="a/b")
    with Emitter(client, "some-event") as emitter, pytest.raises(EmitError) as caught:
        emitter.emit_all([large, Event.of("t", "/s", id="late")], timeout_s=1)
    text = str(caught.value)
    assert "2 of 2 events were not acknowledged by topic some-event at nowhere within 1 s." in text
    assert " One of them, 'large' of '/s': it is too large: " in text
    assert "dataref" in text
    assert "emit again with the same id" in text
    assert caught.value.undelivered == (("/s", "large"), ("/s", "late"))
    assert caught.value.too_large == (("/s", "large"),)


def test_after_an_event_that_was_not_acknowledged_in_time_another_client_sends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client that has lost its brokers never sends again (librdkafka issue 5301)."""
    made: list[Lingering] = []

    class Client(Lingering):
        def __init__(self, settings: dict[str, Any]) -> None:
            super().__init__(settings)
            made.append(self)

        def flush(self, timeout_s: float) -> int:
            if self is not made[0]:
                return super().flush(timeout_s)
            while self.held:
                self.held.pop()(KafkaError(KafkaError._MSG_TIMED_OUT), None)  # type: ignore[arg-type]
            return 0

    monkeypatch.setattr("confluent_kafka.Producer", Client)
    with Emitter({"bootstrap.servers": "nowhere"}, "t") as emitter:
        with pytest.raises(EmitError, match="was not acknowledged"):
            emitter.emit(Event.of("type", "/test"), timeout_s=1)
        assert emitter.emit(Event.of("type", "/test"), timeout_s=1) == ("t", 0, 7)
    assert len(made) == 2


class Lingering:
    """A client that sends records only when it is flushed."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.held: list[Callable[[None, Any], None]] = []

    def produce(self, *_: object, on_delivery: Callable[[None, Any], None], **__: object) -> None:
        self.held.append(on_delivery)

    def poll(self, timeout_s: float) -> int:
        return 0

    def flush(self, timeout_s: float) -> int:
        stored = SimpleNamespace(topic=lambda: "t", partition=lambda: 0, offset=lambda: 7)
        while self.held:
            self.held.pop()(None, stored)
        return 0


def test_an_event_is_sent_without_waiting_for_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("confluent_kafka.Producer", Lingering)
    with Emitter({"bootstrap.servers": "nowhere"}, "t") as emitter:
        assert emitter.emit(Event.of("type", "/test"), timeout_s=0.01) == ("t", 0, 7)


def test_a_client_without_records_and_without_an_answer_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Silent(Lingering):
        def flush(self, timeout_s: float) -> int:
            return 0

    monkeypatch.setattr("confluent_kafka.Producer", Silent)
    with (
        Emitter({"bootstrap.servers": "nowhere"}, "t") as emitter,
        pytest.raises(EmitError, match="the client gave no answer"),
    ):
        emitter.emit(Event.of("type", "/test"), timeout_s=3600)


FATAL = KafkaException(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "out of order", fatal=True))
# As the client raises it while a fatal error waits, and from a callback.
REFUSED = KafkaException(KafkaError(KafkaError._FATAL, "Unable to produce message: Local: Fatal error"))
IN_ANSWER = SystemError("returned a result with an exception set")
IN_ANSWER.__cause__ = FATAL


@pytest.mark.parametrize(
    ("call", "error"), [("produce", REFUSED), ("flush", FATAL), ("flush", IN_ANSWER), ("poll", FATAL)]
)
def test_a_fatal_error_is_an_emit_error_and_the_next_emit_has_another_client(
    monkeypatch: pytest.MonkeyPatch, call: str, error: Exception
) -> None:
    made: list[Lingering] = []

    class Failing(Lingering):
        def __init__(self, settings: dict[str, Any]) -> None:
            super().__init__(settings)
            made.append(self)
            self._fails: dict[str, Exception] = {}
            if len(made) == 1:
                self._fails = {"produce": BufferError("full")} if call == "poll" else {}
                self._fails[call] = error

        def _fail(self, name: str) -> None:
            if (error := self._fails.pop(name, None)) is not None:
                raise error

        def produce(self, *given: object, **more: Any) -> None:
            self._fail("produce")
            if len(made) > 1:
                super().produce(*given, **more)
            elif call == "poll":
                raise REFUSED

        def poll(self, timeout_s: float) -> int:
            self._fail("poll")
            return 0

        def flush(self, timeout_s: float) -> int:
            self._fail("flush")
            return super().flush(timeout_s)

    monkeypatch.setattr("confluent_kafka.Producer", Failing)
    with Emitter({"bootstrap.servers": "nowhere"}, "t") as emitter:
        with pytest.raises(EmitError, match="Fatal error" if call == "produce" else "out of order"):
            emitter.emit(Event.of("type", "/test"))
        assert emitter.emit(Event.of("type", "/test")) == ("t", 0, 7)
    assert len(made) == 2


def test_an_emitter_with_a_secret_gives_the_client_nothing_of_it_and_signs_what_it_sends() -> None:
    client = {
        "bootstrap.servers": "127.0.0.1:1",
        "interlock.proof.secret": SECRET * 3,
        "interlock.proof.secret.accepted": SECRET * 4,
        "interlock.proof.from": "2026-12-01T00:00:00Z",
    }
    sent: list[Any] = []
    with Emitter(client, "some-event") as emitter:
        emitter.connect(1.0)  # the client refuses names that it does not know
        producer: Any = SimpleNamespace(produce=lambda *_, headers, **__: sent.append(dict(headers)))
        for kind in ("interlock.airflow.dag_run.succeeded", "com.shop.orders.done"):
            emitter._send(producer, Event.of(kind, "/s"), 0, [None], 0.0)
    assert ["ce_interlockproof" in headers for headers in sent] == [True, False]


def test_a_secret_that_cannot_be_used_is_an_error_without_its_value() -> None:
    client = {"bootstrap.servers": "127.0.0.1:1", "interlock.proof.secret": SECRET}
    with pytest.raises(EmitError, match=r"some-event: interlock\.proof\.secret is not usable") as caught:
        Emitter(client, "some-event")
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
