"""What is told while an application runs: each event by its schema, and nothing that was not asked for."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import jsonschema
import pytest
from interlock import Event
from interlock.events.schemas import data_schema
from interlock.events.taxonomy import (
    SPARK_APPLICATION_STARTED,
    SPARK_QUERY_TYPES,
    SPARK_STREAMING_QUERY_TYPES,
)
from interlock.spark.completion import progress as module
from interlock.spark.completion.application import Application
from interlock.spark.completion.outcome import Failure
from interlock.spark.completion.progress import MAX_OUTPUTS, Telling
from interlock.spark.completion.query_listener import Query, Written
from interlock.spark.completion.streaming_listener import StreamingQuery
from interlock.spark.settings import Settings

BEGAN = datetime(2026, 11, 20, 6, tzinfo=UTC)
ORDERS = Application("local-1", "daily orders", "ada", started_at=BEGAN, spark_version="4.0.0")
WROTE = Written(path="/data/orders", rows=3, bytes=100, files=1)
NO = Failure("ValueError", "no")


class Told:
    """An outlet that keeps what it is given."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.put = self.events.append

    def connect(self) -> None:
        pass

    def flush(self, timeout_s: float) -> None:
        pass


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    outlet = Told()
    monkeypatch.setattr(module, "outlet_of", lambda _: outlet)
    return outlet.events


def telling(*kinds: str, started: bool = False, data: dict[str, Any] | None = None) -> Telling:
    settings = Settings({"bootstrap.servers": "a:1"}, "t", 1.0, frozenset(kinds), started)
    return Telling("orders", ORDERS, settings, lambda: data or {}, {"dag_id": "d"})


def query(number: int = 1, written: Written | None = None, failure: Failure | None = None) -> Query:
    return Query(number, "command", 1200, written, failure)


def stream(ended: bool = True, failure: Failure | None = None) -> StreamingQuery:
    end = BEGAN + timedelta(seconds=2) if ended else None
    return StreamingQuery("id", "run", "q", BEGAN, end, 10, 2, "FileSink[/x]", failure)


def test_every_event_is_as_its_schema_says_and_has_the_authors_data(told: list[Event]) -> None:
    tells = telling("query", "streaming", started=True, data={"date": "2026-11-20"})
    tells._query_ended(query(1, WROTE), True)
    tells._query_ended(query(2, None, NO), True)
    for each in (stream(ended=False), stream(), stream(failure=NO)):
        tells._streaming_query(each)
    types = {SPARK_APPLICATION_STARTED, *SPARK_QUERY_TYPES.values(), *SPARK_STREAMING_QUERY_TYPES.values()}
    assert {event.type for event in told} == types
    assert len({event.id for event in told}) == len(told) == 6
    for event in told:
        jsonschema.validate(event.payload, data_schema(event.type))
        assert isinstance(event.payload, dict)
        assert (event.subject, event.source) == ("orders", "/spark/daily%20orders")
        assert (event.payload["date"], event.payload["airflow"]) == ("2026-11-20", {"dag_id": "d"})


def test_what_a_block_inside_of_this_one_tells_is_counted_here_and_not_told_again(told: list[Event]) -> None:
    tells = telling("write")
    tells._query_ended(query(1, WROTE), False)
    assert told == []
    assert tells.written() == {"queries": 1, "rows": 3, "bytes": 100, "outputs": ["/data/orders"]}


def test_the_start_is_told_once_where_a_block_takes_the_wrappers_name(told: list[Event]) -> None:
    settings = Settings({"bootstrap.servers": "a:1"}, "t", 1.0, frozenset(), started=True)
    application = replace(ORDERS, id="local-of-this-test")
    for name, use in (("orders", 1), ("orders", 1), ("orders", 2), ("rates", 1)):
        Telling(name, application, settings, dict, {}, use)
    assert [event.subject for event in told] == ["orders", "orders", "rates"]
    assert len({event.id for event in told}) == 3


def test_only_queries_that_write_are_told_unless_all_are_asked_for(told: list[Event]) -> None:
    for kinds, numbers in ((("write",), [1, 3]), (("write", "query"), [1, 2, 3])):
        told.clear()
        tells = telling(*kinds)
        for each in (query(1, WROTE), query(2), query(3, Written(table="t"), NO)):
            tells._query_ended(each, True)
        assert [event.payload["query"]["id"] for event in told] == numbers  # type: ignore[index]


def test_starts_are_told_where_they_are_asked_for(told: list[Event]) -> None:
    telling("streaming")._streaming_query(stream(ended=False))
    assert told == []


def test_the_same_query_is_told_by_the_same_event_and_another_name_by_another(told: list[Event]) -> None:
    for _ in range(2):
        telling("write")._query_ended(query(1, WROTE), True)
    assert told[0].id == told[1].id
    other = Telling("rates", ORDERS, Settings({"bootstrap.servers": "a:1"}, "t", 1.0), dict, {})
    other._query_ended(query(1, WROTE), True)
    assert told[2].id != told[0].id


def test_what_was_written_is_summed_up_and_its_places_are_bounded() -> None:
    tells = telling("write")
    assert tells.written() is None
    tells._query_ended(query(0, Written(table="t"), NO), True)  # it failed
    assert tells.written() is None
    tells._query_ended(query(1, Written(path="/p", table="t", rows=2, bytes=10)), True)
    tells._query_ended(query(2, Written(table="t")), True)
    assert tells.written() == {"queries": 2, "rows": 2, "bytes": 10, "outputs": ["t"]}
    other = telling("write")
    other._query_ended(query(1, Written(table="t")), True)
    assert other.written() == {"queries": 1, "outputs": ["t"]}  # Spark does not tell how much
    for number in range(200):
        tells._query_ended(query(number, Written(path=f"/{number}", rows=1)), True)
    written = tells.written()
    assert written is not None
    assert (len(written["outputs"]), written["rows"]) == (MAX_OUTPUTS, 202)


def test_an_event_that_cannot_be_made_is_a_warning(
    told: list[Event], caplog: pytest.LogCaptureFixture
) -> None:
    telling("write", data={"at": object()})._query_ended(query(1, WROTE), True)
    assert told == []
    assert "interlock.spark.query.succeeded of 'orders' cannot be told" in caplog.text
