"""Events emitted while an application runs: each fits its schema, and only the configured ones are sent."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
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
from interlock.spark.completion.open_blocks import OpenBlock
from interlock.spark.completion.outcome import Failure
from interlock.spark.completion.process_exit import ProcessExit
from interlock.spark.completion.progress import MAX_OUTPUTS, ProgressEvents
from interlock.spark.completion.query_listener import Query, Written
from interlock.spark.completion.report import Report
from interlock.spark.completion.streaming_listener import StreamingQuery, Streams
from interlock.spark.settings import CompletionSettings

BEGAN = datetime(2026, 11, 20, 6, tzinfo=UTC)
ORDERS = Application("local-1", "daily orders", "ada", started_at=BEGAN, spark_version="4.0.0")
WROTE = Written(path="/data/orders", rows=3, bytes=100, files=1)
NO = Failure("ValueError", "no")


class FakeSender:
    """A sender that records events."""

    timeout_s = 1.0

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.put = self.events.append

    def connect(self) -> None:
        pass

    def flush(self, timeout_s: float) -> None:
        pass


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    sender = FakeSender()
    monkeypatch.setattr(module, "sender_for", lambda _: sender)
    return sender.events


def progress(*kinds: str, started: bool = False, data: dict[str, Any] | None = None) -> ProgressEvents:
    settings = CompletionSettings({"bootstrap.servers": "a:1"}, "t", 1.0, frozenset(kinds), started)
    return ProgressEvents(Report("orders", ORDERS, airflow={"dag_id": "d"}), settings, lambda: data or {})


def query(number: int = 1, written: Written | None = None, failure: Failure | None = None) -> Query:
    return Query(number, "command", 1200, written, failure)


def stream(ended: bool = True, failure: Failure | None = None) -> StreamingQuery:
    end = BEGAN + timedelta(seconds=2) if ended else None
    return StreamingQuery("id", "run", "q", BEGAN, end, 10, 2, "FileSink[/x]", failure)


def test_every_event_fits_its_schema_and_has_the_authors_data(sent: list[Event]) -> None:
    events = progress("query", "streaming", started=True, data={"date": "2026-11-20"})
    events._query_ended(query(1, WROTE), True)
    events._query_ended(query(2, None, NO), True)
    for each in (stream(ended=False), stream(), stream(failure=NO)):
        events._streaming_query(each)
    types = {SPARK_APPLICATION_STARTED, *SPARK_QUERY_TYPES.values(), *SPARK_STREAMING_QUERY_TYPES.values()}
    assert {event.type for event in sent} == types
    assert len({event.id for event in sent}) == len(sent) == 6
    for event in sent:
        jsonschema.validate(event.payload, data_schema(event.type))
        assert isinstance(event.payload, dict)
        assert (event.subject, event.source) == ("orders", "/spark/daily%20orders")
        assert (event.payload["date"], event.payload["airflow"]) == ("2026-11-20", {"dag_id": "d"})


def test_a_stream_that_began_before_the_block_has_no_figures_that_nobody_counted(sent: list[Event]) -> None:
    """apache/spark#16991: a listener may know nothing of a query that ends. The event said: 0 ms, 0 rows."""
    events = progress("streaming")
    streams = Streams(events._streaming_query)
    streams.progressed("run", 10, "FileSink[/x]")
    streams.ended(StreamingQuery("id", "run", None, BEGAN), None)
    [event] = sent
    jsonschema.validate(event.payload, data_schema(event.type))
    about = event.payload["streaming_query"]  # type: ignore[index]
    assert not {"duration_ms", "rows", "batches"} & about.keys()


def test_a_clock_that_was_set_back_makes_no_negative_duration(sent: list[Event]) -> None:
    progress("streaming")._streaming_query(replace(stream(), ended_at=BEGAN - timedelta(seconds=9)))
    [event] = sent
    jsonschema.validate(event.payload, data_schema(event.type))


def test_a_query_that_an_inner_block_reports_is_only_counted(sent: list[Event]) -> None:
    events = progress("write")
    events._query_ended(query(1, WROTE), False)
    assert sent == []
    assert events.written() == {"queries": 1, "rows": 3, "bytes": 100, "outputs": ["/data/orders"]}


def test_the_start_is_emitted_once_when_a_block_uses_the_wrappers_name(sent: list[Event]) -> None:
    settings = CompletionSettings({"bootstrap.servers": "a:1"}, "t", 1.0, frozenset(), started=True)
    application = replace(ORDERS, id="local-of-this-test")
    for name, use in (("orders", 1), ("orders", 1), ("orders", 2), ("rates", 1)):
        ProgressEvents(Report(name, application, use=use), settings, dict)
    assert [event.subject for event in sent] == ["orders", "orders", "rates"]
    assert len({event.id for event in sent}) == 3


def test_only_queries_that_write_are_emitted_unless_all_are_configured(sent: list[Event]) -> None:
    for kinds, numbers in ((("write",), [1, 3]), (("write", "query"), [1, 2, 3])):
        sent.clear()
        events = progress(*kinds)
        for each in (query(1, WROTE), query(2), query(3, Written(table="t"), NO)):
            events._query_ended(each, True)
        assert [event.payload["query"]["id"] for event in sent] == numbers  # type: ignore[index]


@pytest.mark.parametrize("error", [None, SystemExit(0), ValueError("no"), SystemExit(143)], ids=repr)
def test_a_stream_that_still_runs_at_the_end_of_the_process_gets_its_end_event_once(
    sent: list[Event], monkeypatch: pytest.MonkeyPatch, error: BaseException | None
) -> None:
    """Regression: a streaming query still running at exit got no end event."""
    process_exit, stopped = ProcessExit(), []
    monkeypatch.setattr(process_exit, "watch", lambda: None)
    monkeypatch.setattr(module, "PROCESS_EXIT", process_exit)
    monkeypatch.setattr(module, "is_program", lambda: True)
    monkeypatch.setattr(module, "is_connect", lambda _: False)
    monkeypatch.setattr(module, "session_of", lambda _: "of this test")
    monkeypatch.setattr(module, "wait_until_delivered", lambda *_: None)
    heard: list[Streams] = []
    on, inside, after = (f"{when}, {error!r}" for when in ("at exit", "in the block", "after it"))

    def listen(_: object, callback: Any) -> tuple[Streams, Any]:
        heard.append(Streams(callback))
        return heard[0], lambda: stopped.append(True)

    monkeypatch.setattr(module, "listen", listen)
    events = progress("streaming")
    events.listen(SimpleNamespace(sparkContext=None))  # type: ignore[arg-type]
    for name in (on, inside, after):
        heard[0].started(StreamingQuery("id", name, name, BEGAN))
    heard[0].progressed(on, 7, "FileSink[/x]")
    heard[0].progressed(on, 5, "FileSink[/x]")
    heard[0].ended(StreamingQuery("id", inside, None, BEGAN), None)
    events.close()
    heard[0].ended(StreamingQuery("id", after, None, BEGAN), NO)
    for callback in process_exit._callbacks:
        callback(error)
    failed = error is not None and getattr(error, "code", None) != 0
    payloads: list[Any] = [event.payload for event in sent[:3]]
    assert [each["streaming_query"]["run_id"] for each in payloads] == [
        inside,
        after,
        on,
    ]
    last = sent[2]
    assert last.type == SPARK_STREAMING_QUERY_TYPES["failed" if failed else "succeeded"]
    assert (payloads[2]["streaming_query"]["rows"], payloads[2]["streaming_query"]["batches"]) == (12, 2)
    assert ("error" in payloads[2]) is failed
    jsonschema.validate(last.payload, data_schema(last.type))
    assert stopped == []


@pytest.mark.parametrize("fails", ["QueryListener", "listen"])
def test_a_block_that_cannot_listen_is_closed_and_changes_nothing_for_later_blocks(
    monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    session, run = f"refuses {fails}", f"run beside {fails}"
    closed: list[float] = []
    monkeypatch.setattr(module, "QueryListener", lambda *_: SimpleNamespace(close=closed.append))

    def fail(*_: object) -> None:
        raise RuntimeError("the JVM is gone")

    monkeypatch.setattr(module, fails, fail)
    monkeypatch.setattr(module, "is_connect", lambda _: False)
    monkeypatch.setattr(module, "session_of", lambda _: session)
    events = progress("write", "streaming")
    with pytest.raises(RuntimeError, match="the JVM is gone"):
        events.listen(SimpleNamespace())  # type: ignore[arg-type]
    events.close()
    assert len(closed) == (fails == "listen")
    later = OpenBlock(session)
    later.emits_stream(run, ended=False)
    assert later.keep_streams([run])
    later.close()


def test_starts_are_not_emitted_by_default(sent: list[Event]) -> None:
    progress("streaming")._streaming_query(stream(ended=False))
    assert sent == []


def test_the_event_id_depends_on_query_and_name(sent: list[Event]) -> None:
    for _ in range(2):
        progress("write")._query_ended(query(1, WROTE), True)
    assert sent[0].id == sent[1].id
    other = ProgressEvents(
        Report("rates", ORDERS), CompletionSettings({"bootstrap.servers": "a:1"}, "t", 1.0), dict
    )
    other._query_ended(query(1, WROTE), True)
    assert sent[2].id != sent[0].id


def test_writes_are_summed_and_their_outputs_are_bounded() -> None:
    events = progress("write")
    assert events.written() is None
    events._query_ended(query(0, Written(table="t"), NO), True)  # it failed
    assert events.written() is None
    events._query_ended(query(1, Written(path="/p", table="t", rows=2, bytes=10)), True)
    events._query_ended(query(2, Written(table="t")), True)
    assert events.written() == {"queries": 2, "rows": 2, "bytes": 10, "outputs": ["t"]}
    other = progress("write")
    other._query_ended(query(1, Written(table="t")), True)
    assert other.written() == {"queries": 1, "outputs": ["t"]}  # Spark does not know how much
    for number in range(200):
        events._query_ended(query(number, Written(path=f"/{number}", rows=1)), True)
    written = events.written()
    assert written is not None
    assert (len(written["outputs"]), written["rows"]) == (MAX_OUTPUTS, 202)


def test_an_event_that_cannot_be_made_is_a_warning(
    sent: list[Event], caplog: pytest.LogCaptureFixture
) -> None:
    progress("write", data={"at": object()})._query_ended(query(1, WROTE), True)
    assert sent == []
    assert "interlock.spark.query.succeeded of 'orders' was not emitted: " in caplog.text
