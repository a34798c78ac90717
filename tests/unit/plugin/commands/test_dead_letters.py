"""`airflow interlock dead-letters`: where a firing was to be delivered, and what its sink answered."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pytest
from airflow.cli.cli_parser import get_parser
from interlock import event
from interlock.engine.admin import dead_letters as module
from interlock.engine.admin.dead_letters import DeadLetter
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.delivery.sinks import SinkRecord
from interlock.engine.protocol.outputs import Outputs
from interlock.engine.records import (
    ActionRecord,
    FiringRecord,
    Registration,
    RegistrationKey,
    encode_json,
    sink_key,
)
from interlock.engine.registry.registry import Registry

NAME = "airflow/deliver/ship"
CONFIG = BusConfig(name="b", client={"bootstrap.servers": "one:1"})


def firing(answer: bytes = b"", name: str = NAME) -> Record:
    made = FiringRecord(id="f1", outcome="met", key=None, fired_at="at", events={}, origins={})
    action = ActionRecord(subscription=name, kind="durable", incarnation="i", state="fired", firing=made)
    fired = Record(TopicPartition("b-action", 1), 7, 0, action.key, encode_json(action), [])
    more = {"interlock_error_data": base64.b64encode(answer).decode()}
    return dead_letter(fired, "delivery", more)


def dead_letter(record: Record, stage: str, more: dict[str, str] | None = None) -> Record:
    outputs = Outputs(CONFIG, 1)
    outputs.dead_letter(record, stage, "refused", 0, more=more or {})
    [output] = outputs.records
    return Record(TopicPartition("b-dead-letter", 0), 3, 9, output.key, output.value, output.headers)


class DeadLettersOfOne(module.DeadLetters):
    """Of a topic with one record."""

    def __init__(self, record: Record) -> None:
        self._config, self._record = CONFIG, record

    def close(self) -> None:
        """Has no clients."""

    def find(self, wanted: Any, limit: int | None = None) -> list[DeadLetter]:
        return [DeadLetter.of(self._record)]

    def at(self, places: Iterable[str]) -> list[DeadLetter]:
        return [DeadLetter.of(self._record)]

    def records(self, dead_letters: Iterable[DeadLetter]) -> Iterator[tuple[DeadLetter, Record]]:
        yield from ((each, self._record) for each in dead_letters)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    """Of a bus on which `ship` is registered, with a sink."""
    found = Registry()
    registration = Registration.of(NAME, event("a"), None, 0, kind="durable")
    sink = SinkRecord(subscription=NAME, connection="crm", path="/orders")
    records = [
        (RegistrationKey(registration.incarnation, "n").encode(), encode_json(registration)),
        (sink.key, encode_json(sink)),
    ]
    for offset, (key, value) in enumerate(records):
        found.apply(Record(TopicPartition("b-subscription", 0), offset, 0, key, value, None))
    monkeypatch.setattr(module, "read_registry", lambda _: found)
    return found


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(record: Record, *words: str, output: str = "json") -> str:
        connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": "one:1"}}
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(connection))
        monkeypatch.setattr("interlock.engine.kafka.reachability.require_answer", lambda *_: None)
        monkeypatch.setattr(module, "DeadLetters", lambda _: DeadLettersOfOne(record))
        args = get_parser().parse_args(["interlock", "dead-letters", *words, "--output", output])
        args.func(args)
        return capsys.readouterr().out

    return run


def test_a_firing_that_was_not_delivered_is_listed_with_its_subscription_and_sink(
    run: Any, registry: Registry
) -> None:
    for words in (("list",), ("show", "0@3")):
        [row] = json.loads(run(firing(), *words))
        assert (row["subscription"], row["sink"]) == (NAME, "connection crm, path /orders")
        table = run(firing(), *words, output="table")
        assert NAME in table
        assert "connection crm" in table


def test_a_sink_that_was_removed_is_listed_as_removed(run: Any, registry: Registry) -> None:
    registry.apply(Record(TopicPartition("b-subscription", 0), 9, 0, sink_key(NAME), None, None))
    [row] = json.loads(run(firing(), "list"))
    assert (row["subscription"], row["sink"]) == (NAME, "removed")


def test_other_dead_letters_have_no_columns_of_sinks(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "read_registry", lambda _: pytest.fail("the registry is not needed"))
    record = dead_letter(Record(TopicPartition("b-event", 0), 1, 0, b"k", b"{}", []), "event")
    for words in (("list",), ("show", "0@3")):
        [row] = json.loads(run(record, *words))
        assert (row["subscription"], row["sink"]) == (None, None)
        assert "subscription" not in run(record, *words, output="table")


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (b"no such order", "no such order"),
        ("Zurück".encode(), "Zurück"),
        ("Zurück".encode()[:4], "Zur"),  # the header has the first 1,024 bytes
        (b"\xff\xfe\x00", "3 bytes, not text"),
        (b"a\x00b", "3 bytes, not text"),
    ],
)
@pytest.mark.usefixtures("registry")
def test_what_a_sink_answered_is_shown_as_text(run: Any, answer: bytes, shown: str) -> None:
    [found] = json.loads(run(firing(answer), "show", "0@3"))
    assert found["headers"]["interlock_error_data"] == shown
    assert shown in run(firing(answer), "show", "0@3", output="plain")


@pytest.mark.usefixtures("registry")
def test_what_a_sink_answered_does_not_command_the_terminal(run: Any) -> None:
    for output in ("table", "plain"):
        text = run(firing(b"\x1b]0;title\x07\nforged"), "show", "0@3", output=output)
        assert "\\x1b]0;title\\x07\\nforged" in text


@pytest.mark.usefixtures("registry")
def test_a_header_that_holds_no_base64_is_shown_as_such(run: Any) -> None:
    record = firing()
    headers = [(name, b"%" if name == "interlock_error_data" else raw) for name, raw in record.headers or ()]
    [found] = json.loads(run(msgspec.structs.replace(record, headers=headers), "show", "0@3"))
    assert found["headers"]["interlock_error_data"] == "1 byte, not base64"
