"""The events of blocks of work and applications, without Spark: `completion_event` and its decorator."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from interlock.events import outbox
from interlock.events.errors import EmitError
from interlock.events.event import Event
from interlock.spark import CompletionError, completion_event, with_completion_event
from interlock.spark.completion import completion, process_exit, progress, sender, tracker
from interlock.spark.completion.application import Application
from interlock.spark.completion.open_blocks import OpenBlock
from interlock.spark.completion.process_exit import Terminated
from interlock.spark.completion.report import reports_in

from tests.unit.spark.completion.job import Bus, ClassicSession, End

CONF = {
    "spark.app.id": "local-1795201979099",
    "spark.app.name": "daily orders",
    "spark.interlock.bootstrap.servers": "broker:9092",
}


@pytest.fixture
def end(monkeypatch: pytest.MonkeyPatch) -> End:
    made = End()
    for module in (sender, tracker):
        monkeypatch.setattr(module, "PROCESS_EXIT", made)
    return made


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch, end: End) -> Iterator[Bus]:
    made = Bus()

    class FakeEmitter:
        def __init__(self, client: Mapping[str, str], topic: str) -> None:
            made.clients.append(dict(client))
            self._topic = topic

        def connect(self, timeout_s: float = 30.0) -> None:
            pass

        def emit_all(self, events: Sequence[Event], timeout_s: float = 30.0) -> None:
            made.timeouts_s.append(timeout_s)
            if made.refuses:
                raise EmitError("the broker does not answer", [event.identity for event in events])
            made.sent += [(self._topic, event) for event in events]

    monkeypatch.setattr(sender, "Emitter", FakeEmitter)
    monkeypatch.setattr(sender, "SENDERS", {})
    for module in (completion, tracker, sender):
        monkeypatch.setattr(module, "is_program", lambda: False)  # sends when the block ends
    for name in ("DAG_ID", "DAG_RUN_ID", "TASK_ID", "TRY_NUMBER", "MAP_INDEX"):
        monkeypatch.delenv(f"AIRFLOW_CTX_{name}", raising=False)
    yield made
    made.refuses = False  # so that the sender's thread ends its retries


def session(**conf: str) -> Any:
    return ClassicSession({**CONF, **{f"spark.interlock.{name}": value for name, value in conf.items()}})


def completes(spark: Any = None, name: str = "orders", **arguments: Any) -> None:
    """Work that ends well."""
    with completion_event(spark or session(), name, **arguments):
        pass


def only_event(bus: Bus) -> Event:
    ((_, event),) = bus.sent
    return event


def payload(bus: Bus) -> dict[str, Any]:
    data = only_event(bus).payload
    assert isinstance(data, dict)
    return data


def test_work_that_ends_well_sends_one_succeeded_event_with_the_authors_data_at_top_level(bus: Bus) -> None:
    with completion_event(session(), "orders", data={"date": "2026-11-20"}) as completion:
        completion.data["rows"] = 1023
    ((topic, event),) = bus.sent
    assert topic == "interlock-event"
    assert event.type == "interlock.spark.application.succeeded"
    assert event.source == "/spark/daily%20orders"
    assert event.subject == "orders"
    data = payload(bus)
    assert (data["date"], data["rows"]) == ("2026-11-20", 1023)
    assert completion.event == event


def test_the_event_describes_the_application(bus: Bus) -> None:
    completes()
    application = payload(bus)["application"]
    application.pop("duration_ms")
    assert application == {
        "id": "local-1795201979099",
        "name": "daily orders",
        "user": "ada",
        "attempt": None,
        "started_at": "2026-11-20T19:12:57.353000+00:00",
        "spark_version": "4.0.0",
    }


def test_an_exception_sends_one_failed_event_and_propagates(bus: Bus) -> None:
    with pytest.raises(KeyError), completion_event(session(), "orders"):
        raise KeyError("no column cents")
    assert only_event(bus).type == "interlock.spark.application.failed"
    assert payload(bus)["error"] == {"class": "KeyError", "message": "'no column cents'"}


@pytest.mark.parametrize("text", [ConnectionRefusedError("the JVM is gone"), "bad line caf\udce9"])
def test_a_failure_whose_text_cannot_be_used_is_still_sent_and_propagates(
    bus: Bus, text: Exception | str
) -> None:
    class Failed(Exception):
        def __str__(self) -> str:
            if isinstance(text, str):
                return text
            raise text

    with pytest.raises(Failed), completion_event(session(), "orders"):
        raise Failed
    assert only_event(bus).type == "interlock.spark.application.failed"


def test_a_long_message_is_shortened(bus: Bus) -> None:
    with pytest.raises(ValueError, match="x"), completion_event(session(), "orders"):
        raise ValueError("x" * 10_000)
    assert len(payload(bus)["error"]["message"]) == 500


@pytest.mark.parametrize(("code", "outcome"), [(0, "succeeded"), (None, "succeeded"), (3, "failed")])
def test_sys_exit_ends_the_work_by_its_code(bus: Bus, code: int | None, outcome: str) -> None:
    with pytest.raises(SystemExit), completion_event(session(), "orders"):
        raise SystemExit(code)
    assert only_event(bus).type == f"interlock.spark.application.{outcome}"


def test_a_second_use_of_a_name_is_another_event(bus: Bus) -> None:
    spark = session()
    sent: list[Event] = []
    for date in ("2026-11-19", "2026-11-20"):
        with completion_event(spark, "orders of each date", data={"date": date}) as completion:
            pass
        sent.append(completion.event)  # type: ignore[arg-type]
    assert [event for _, event in bus.sent] == sent
    assert sent[0].id != sent[1].id


def test_nested_and_successive_blocks_each_have_their_own_report(tmp_path: Path, bus: Bus) -> None:
    spark = session(**{"report.dir": str(tmp_path)})
    with completion_event(spark, "outer"):
        for number in range(2):
            completes(spark, "inner", data={"number": number})
    found = [(report.name, report.data) for report in reports_in(tmp_path)]
    assert found == [("inner", {"number": 0}), ("inner", {"number": 1}), ("outer", {})]


def test_the_event_is_sent_after_the_work_stopped_its_session(bus: Bus) -> None:
    spark = session()
    with completion_event(spark, "orders"):
        spark.stop()
    assert len(bus.sent) == 1


def test_the_event_names_the_airflow_task_when_one_runs_the_job(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CTX_DAG_ID", "orders_spark")
    monkeypatch.setenv("AIRFLOW_CTX_DAG_RUN_ID", "manual__1")
    monkeypatch.setenv("AIRFLOW_CTX_TASK_ID", "orders")
    monkeypatch.setenv("AIRFLOW_CTX_TRY_NUMBER", "2")
    completes()
    assert payload(bus)["airflow"] == {
        "dag_id": "orders_spark",
        "run_id": "manual__1",
        "task_id": "orders",
        "try_number": 2,
    }


def test_the_event_has_no_airflow_member_outside_airflow(bus: Bus) -> None:
    completes()
    assert "airflow" not in payload(bus)


@pytest.mark.parametrize("key", ["airflow", "application", "error", "written"])
def test_a_reserved_key_is_refused_before_the_work(key: str) -> None:
    with pytest.raises(CompletionError, match=f"'{key}'.*choose another key"):
        completion_event(session(), "orders", data={key: 1})


def test_a_reserved_key_is_refused_when_it_is_set_inside_the_block(bus: Bus) -> None:
    with pytest.raises(CompletionError), completion_event(session(), "orders") as completion:
        completion.data["application"] = "mine"
    assert only_event(bus).type == "interlock.spark.application.failed"


def test_data_that_is_not_json_is_refused_before_the_work(bus: Bus) -> None:
    with (
        pytest.raises(ValueError, match="JSON"),
        completion_event(session(), "orders", data={"at": object()}),
    ):
        pytest.fail("the work began")
    assert bus.sent == []


def test_a_configuration_without_a_broker_is_refused_before_the_work() -> None:
    spark: Any = ClassicSession({"spark.app.name": "orders"})
    with (
        pytest.raises(CompletionError, match=r"set spark\.interlock\.bootstrap\.servers=host:port"),
        completion_event(spark, "orders"),
    ):
        pytest.fail("the work began")


def test_a_block_that_cannot_listen_to_its_session_raises_and_is_not_left_open(
    bus: Bus, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("the JVM is gone")

    monkeypatch.setattr(progress, "session_of", lambda _: "that refuses listeners")
    monkeypatch.setattr(progress, "listen", refuse)
    with (
        pytest.raises(RuntimeError, match="the JVM is gone"),
        completion_event(session(events="streaming"), "orders"),
    ):
        pytest.fail("the work began")
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: OpenBlock("that refuses listeners").close()).result()
    assert "several threads" not in caplog.text


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(CompletionError, match="needs a name"):
        completion_event(session(), "")


def test_a_failed_delivery_is_a_warning_and_the_work_keeps_its_result(
    bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    bus.refuses = True
    spark = session(**{"delivery.timeout": "50ms"})
    with caplog.at_level(logging.WARNING), completion_event(spark, "orders"):
        pass
    text = "'orders' was not sent; the job's outcome does not change: topic interlock-event at broker:9092:"
    assert text in caplog.text
    assert "the broker does not answer" in caplog.text


def test_a_failed_delivery_raises_when_the_event_is_required(bus: Bus) -> None:
    bus.refuses = True
    spark = session(**{"delivery.timeout": "50ms"})
    with pytest.raises(EmitError), completion_event(spark, "orders", required=True):
        pass


def test_a_failed_delivery_does_not_hide_the_failure_of_the_work(bus: Bus) -> None:
    bus.refuses = True
    spark = session(**{"delivery.timeout": "50ms"})
    with pytest.raises(KeyError), completion_event(spark, "orders", required=True):
        raise KeyError("cents")


def test_bus_and_timeout_come_from_the_configuration(bus: Bus) -> None:
    completes(session(**{"bus": "finance", "delivery.timeout": "500ms"}), "orders")
    assert bus.sent[0][0] == "finance-event"
    assert bus.timeouts_s == [0.5]


# -- when the outcome is final


@pytest.fixture
def program(bus: Bus, end: End, monkeypatch: pytest.MonkeyPatch) -> End:
    """The end of the process, which is the end of the job."""
    monkeypatch.setattr(tracker, "is_program", lambda: True)
    return end


@pytest.mark.parametrize(("error", "outcome"), [(None, "succeeded"), (ValueError("after it"), "failed")])
def test_successful_blocks_take_the_outcome_of_the_process_when_it_ends(
    bus: Bus, program: End, error: Exception | None, outcome: str
) -> None:
    for name in ("orders", "rates"):
        completes(session(), name)
    assert bus.sent == []
    program.come(error)
    found = [(event.subject, event.type.rpartition(".")[2]) for _, event in bus.sent]
    assert found == [("orders", outcome), ("rates", outcome)]


@pytest.mark.parametrize(
    ("work", "message"), [(None, "the process was terminated (SIGTERM)"), (KeyError("cents"), "'cents'")]
)
def test_sigterm_while_the_end_of_a_block_waits_sends_a_failed_event_and_propagates(
    bus: Bus, program: End, monkeypatch: pytest.MonkeyPatch, work: Exception | None, message: str
) -> None:
    def terminate(*_: object) -> None:
        raise Terminated(143)

    def job() -> None:
        with completion_event(session(), "orders"):
            if work is not None:
                raise work

    monkeypatch.setattr(sender.EventSender, "flush", terminate)
    with pytest.raises(Terminated):
        job()
    assert only_event(bus).type == "interlock.spark.application.failed"
    assert payload(bus)["error"]["message"] == message


def test_a_failed_block_sends_its_event_at_once(bus: Bus, program: End) -> None:
    with pytest.raises(KeyError), completion_event(session(), "orders"):
        raise KeyError
    assert len(bus.sent) == 1
    program.come()
    assert len(bus.sent) == 1


def test_until_block_sends_at_once_whatever_the_process_does_later(bus: Bus, program: End) -> None:
    completes(until="block")
    program.come(ValueError("later"))
    assert len(bus.sent) == 1
    with pytest.raises(CompletionError, match="until='end'"):
        completion_event(session(), "orders", until="end")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("required", "error", "exits"),
    [(False, None, []), (True, None, [1]), (True, ValueError("the work failed"), [])],
)
def test_a_required_event_that_is_not_sent_at_the_end_ends_the_process_with_1(
    bus: Bus,
    program: End,
    monkeypatch: pytest.MonkeyPatch,
    required: bool,
    error: Exception | None,
    exits: list[int],
) -> None:
    left: list[int] = []
    monkeypatch.setattr(process_exit.os, "_exit", left.append)
    bus.refuses = True
    completes(session(**{"delivery.timeout": "50ms"}), "orders", required=required)
    program.come(error)
    assert left == exits


def test_the_end_of_the_process_needs_no_new_thread(
    bus: Bus, program: End, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: on Python 3.12.0 to 3.12.2, which starts no thread then, the event was lost."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    completes(required=True)
    assert bus.sent == []
    monkeypatch.setattr(threading.Thread, "start", refuse)
    program.come()
    assert only_event(bus).type == "interlock.spark.application.succeeded"


def test_a_required_event_that_cannot_be_sent_does_not_stop_the_others(
    bus: Bus, program: End, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[int] = []
    monkeypatch.setattr(process_exit.os, "_exit", left.append)
    emit = sender.Emitter.emit_all

    def refuse_large(self: Any, events: Sequence[Event], timeout_s: float) -> None:
        large = [event.identity for event in events if event.subject == "large"]
        emit(self, [event for event in events if event.subject != "large"], timeout_s)
        if large:
            raise EmitError("it is too large", large, large)

    monkeypatch.setattr(sender.Emitter, "emit_all", refuse_large)
    for name in ("first", "large", "last"):
        completes(session(), name, required=name == "large")
    program.come()
    assert [event.subject for _, event in bus.sent] == ["first", "last"]
    assert left == [1]


def test_the_end_of_a_fork_sends_nothing(bus: Bus, program: End, monkeypatch: pytest.MonkeyPatch) -> None:
    completes()
    pid = os.getpid()
    monkeypatch.setattr(process_exit.os, "getpid", lambda: pid + 1)
    program.come()
    assert bus.sent == []


def test_blocks_wait_only_once_for_an_unresponsive_kafka(
    bus: Bus, program: End, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "RETRY_S", 0.01)
    waits: list[Sequence[Event]] = []
    deliver = outbox.Outbox.deliver

    def counted(self: Any, events: Sequence[Event], timeout_s: float) -> Any:
        waits.append(events)
        return deliver(self, events, timeout_s)

    monkeypatch.setattr(outbox.Outbox, "deliver", counted)
    bus.refuses = True
    spark = session(**{"delivery.timeout": "200ms"})
    for number in range(30):
        completes(spark, f"orders {number}", until="block")
    assert len(waits) == 1
    assert "broker:9092 did not answer an earlier event" in caplog.text
    bus.refuses = False
    program.come()
    assert {event.subject for _, event in bus.sent} == {f"orders {number}" for number in range(30)}


def test_settings_that_the_client_refuses_raise_on_entry_of_each_block(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise EmitError("the client refuses its settings")

    monkeypatch.setattr(sender.Emitter, "connect", refuse)
    for _ in range(2):
        with pytest.raises(EmitError, match="refuses"), completion_event(session(started="true"), "orders"):
            pytest.fail("the work began")


def test_many_blocks_share_one_client(bus: Bus) -> None:
    spark = session()
    for _ in range(20):
        completes(spark)
    assert len(bus.sent) == 20
    assert len(bus.clients) == 1


def test_a_block_writes_a_report_and_sends_nothing_under_a_submitting_task(bus: Bus, tmp_path: Path) -> None:
    spark = session(**{"report.dir": str(tmp_path)})
    with completion_event(spark, "orders", data={"date": "2026-11-20"}):
        [begun] = reports_in(tmp_path)
        assert (begun.ended, begun.data) == (False, {"date": "2026-11-20"})
    [ended] = reports_in(tmp_path)
    assert (ended.ended, ended.failure, bus.sent) == (True, None, [])
    with pytest.raises(KeyError), completion_event(spark, "orders"):
        raise KeyError("cents")
    [_, failed] = reports_in(tmp_path)
    assert failed.failure is not None
    assert failed.failure.name == "KeyError"


# -- other things


def test_the_authors_data_overrides_data_of_the_configuration(bus: Bus) -> None:
    spark = session(**{"data.date": "2026-11-20", "data.region": "eu"})
    completes(spark, "orders", data={"region": "us"})
    assert payload(bus) | {"application": 0} == {"date": "2026-11-20", "region": "us", "application": 0}


@pytest.mark.parametrize("module", ["pyspark.sql.session", "pyspark.sql.connect.session"])
def test_a_decorated_function_uses_the_session_among_its_arguments(
    bus: Bus, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.setattr(completion, "describe", lambda *_: Application("local-1", "app"))
    kind = type("SparkSession", (ClassicSession,), {"__module__": module})

    @with_completion_event("orders", data={"date": "2026-11-20"})
    def main(date: str, spark: Any) -> str:
        """Makes the orders."""
        return date

    assert main("d", spark=kind(CONF)) == "d"
    assert main.__doc__ == "Makes the orders."
    assert only_event(bus).subject == "orders"


def test_a_decorated_function_without_a_session_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    # Another test of this process may have left one open.
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", None)

    @with_completion_event("orders")
    def main() -> None:
        pytest.fail("the work began")

    with pytest.raises(CompletionError, match="Create one before"):
        main()
