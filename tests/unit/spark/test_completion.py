from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from interlock.events.emitter import Delivery
from interlock.events.errors import EmitError
from interlock.events.event import Event
from interlock.spark import (
    CompletionError,
    completion,
    completion_event,
    telling,
    with_completion_event,
    work,
)
from interlock.spark.application import Application
from interlock.spark.report import reports_in

CONF = {
    "spark.app.id": "local-1795201979099",
    "spark.app.name": "daily orders",
    "spark.interlock.bootstrap.servers": "broker:9092",
}


class ClassicSession:
    """What a classic SparkSession answers; `stop` makes it answer nothing any more, as a real one.

    Its queries are listened to in tests/integration/spark.
    """

    def __init__(self, conf: Mapping[str, str]) -> None:
        self._values: dict[str, str] | None = {"spark.interlock.events": "none", **conf}
        self.sparkContext = SimpleNamespace(
            applicationId=conf.get("spark.app.id"),
            appName=conf.get("spark.app.name"),
            version="4.0.0",
            startTime=1795201977353,
            sparkUser=lambda: "ada",
            getConf=lambda: self._values,
        )

    @property
    def conf(self) -> Any:
        """A Connect session's."""
        return SimpleNamespace(getAll=self._living())

    @property
    def _jsparkSession(self) -> Any:  # noqa: N802  # PySpark names it so
        """A classic one's in the JVM, with a Scala map."""
        lines = [f"{name} -> {value}" for name, value in self._living().items()]
        scala = SimpleNamespace(mkString=lambda between: between.join(lines))
        return SimpleNamespace(conf=lambda: SimpleNamespace(getAll=lambda: scala))

    def _living(self) -> dict[str, str]:
        if self._values is None:
            raise RuntimeError("the session is stopped")
        return self._values

    def stop(self) -> None:
        self._values = None


class Bus:
    """Stands for the broker: keeps what is emitted, or refuses it."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Event]] = []
        self.clients: list[dict[str, str]] = []
        self.timeouts_s: list[float] = []
        self.refuses = False


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> Bus:
    made = Bus()

    class FakeEmitter:
        def __init__(self, client: Mapping[str, str], topic: str) -> None:
            made.clients.append(dict(client))
            self._topic = topic

        def connect(self, timeout_s: float = 30.0) -> None:
            pass

        def emit(self, event: Event, timeout_s: float = 30.0) -> Delivery:
            made.timeouts_s.append(timeout_s)
            if made.refuses:
                raise EmitError("the broker does not answer")
            made.sent.append((self._topic, event))
            return Delivery(self._topic, 0, len(made.sent) - 1)

    monkeypatch.setattr(telling, "Emitter", FakeEmitter)
    for module in (completion, work):
        monkeypatch.setattr(module, "is_program", lambda: False)  # it is told when the block ends
    for name in ("DAG_ID", "DAG_RUN_ID", "TASK_ID", "TRY_NUMBER", "MAP_INDEX"):
        monkeypatch.delenv(f"AIRFLOW_CTX_{name}", raising=False)
    return made


def session(**conf: str) -> Any:
    return ClassicSession({**CONF, **{f"spark.interlock.{name}": value for name, value in conf.items()}})


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


def test_the_event_tells_the_application(bus: Bus) -> None:
    with completion_event(session(), "orders"):
        pass
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


def test_an_exception_sends_one_failed_event_and_goes_on_to_the_caller(bus: Bus) -> None:
    with pytest.raises(KeyError), completion_event(session(), "orders"):
        raise KeyError("no column cents")
    assert only_event(bus).type == "interlock.spark.application.failed"
    assert payload(bus)["error"] == {"class": "KeyError", "message": "'no column cents'"}


def test_a_long_message_is_shortened(bus: Bus) -> None:
    with pytest.raises(ValueError, match="x"), completion_event(session(), "orders"):
        raise ValueError("x" * 10_000)
    assert len(payload(bus)["error"]["message"]) == 500


@pytest.mark.parametrize(("code", "outcome"), [(0, "succeeded"), (None, "succeeded"), (3, "failed")])
def test_sys_exit_ends_the_work_by_its_code(bus: Bus, code: int | None, outcome: str) -> None:
    with pytest.raises(SystemExit), completion_event(session(), "orders"):
        raise SystemExit(code)
    assert only_event(bus).type == f"interlock.spark.application.{outcome}"


def test_the_id_is_the_same_for_the_same_application_name_and_outcome_only(bus: Bus) -> None:
    for name, conf in (("orders", {}), ("orders", {}), ("rates", {})):
        with completion_event(session(**conf), name):
            pass
    other = ClassicSession({**CONF, "spark.app.attempt.id": "2"})
    with completion_event(other, "orders"):  # type: ignore[arg-type]
        pass
    first, again, other_name, other_attempt = (event.id for _, event in bus.sent)
    assert first == again
    assert len({first, other_name, other_attempt}) == 3


def test_a_session_that_the_work_stopped_is_not_asked_again(bus: Bus) -> None:
    spark = session()
    with completion_event(spark, "orders"):
        spark.stop()
    assert len(bus.sent) == 1


def test_the_airflow_task_is_told_when_there_is_one(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CTX_DAG_ID", "orders_spark")
    monkeypatch.setenv("AIRFLOW_CTX_DAG_RUN_ID", "manual__1")
    monkeypatch.setenv("AIRFLOW_CTX_TASK_ID", "orders")
    monkeypatch.setenv("AIRFLOW_CTX_TRY_NUMBER", "2")
    with completion_event(session(), "orders"):
        pass
    assert payload(bus)["airflow"] == {
        "dag_id": "orders_spark",
        "run_id": "manual__1",
        "task_id": "orders",
        "try_number": 2,
    }


def test_outside_of_airflow_nothing_is_said_about_it(bus: Bus) -> None:
    with completion_event(session(), "orders"):
        pass
    assert "airflow" not in payload(bus)


@pytest.mark.parametrize("key", ["airflow", "application", "error", "written"])
def test_a_reserved_key_is_refused_before_the_work(key: str) -> None:
    with pytest.raises(CompletionError, match=f"'{key}'.*choose another key"):
        completion_event(session(), "orders", data={key: 1})


def test_a_reserved_key_is_refused_where_it_is_set(bus: Bus) -> None:
    with pytest.raises(CompletionError), completion_event(session(), "orders") as completion:
        completion.data["application"] = "mine"
    assert only_event(bus).type == "interlock.spark.application.failed"


def test_data_that_is_no_json_is_refused_before_the_work(bus: Bus) -> None:
    with (
        pytest.raises(ValueError, match="JSON"),
        completion_event(session(), "orders", data={"at": object()}),
    ):
        pytest.fail("the work began")
    assert bus.sent == []


def test_no_broker_in_the_configuration_is_told_before_the_work() -> None:
    spark: Any = ClassicSession({"spark.app.name": "orders"})
    with (
        pytest.raises(CompletionError, match=r"set spark\.interlock\.bootstrap\.servers=host:port"),
        completion_event(spark, "orders"),
    ):
        pytest.fail("the work began")


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(CompletionError, match="needs a name"):
        completion_event(session(), "")


def test_an_event_that_is_not_sent_is_a_warning_and_the_work_keeps_its_result(
    bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    bus.refuses = True
    with caplog.at_level(logging.WARNING), completion_event(session(), "orders"):
        pass
    assert "'orders' was not sent; the job's result stands: the broker does not answer" in caplog.text


def test_an_event_that_is_not_sent_raises_when_it_is_required(bus: Bus) -> None:
    bus.refuses = True
    with pytest.raises(EmitError), completion_event(session(), "orders", required=True):
        pass


def test_an_event_that_is_not_sent_does_not_hide_the_failure_of_the_work(bus: Bus) -> None:
    bus.refuses = True
    with pytest.raises(KeyError), completion_event(session(), "orders", required=True):
        raise KeyError("cents")


def test_bus_and_timeout_come_from_the_configuration(bus: Bus) -> None:
    with completion_event(session(**{"bus": "finance", "delivery.timeout": "500ms"}), "orders"):
        pass
    assert bus.sent[0][0] == "finance-event"
    assert bus.timeouts_s == [0.5]


# -- whose outcome it is


@pytest.fixture
def ends(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A process that is a program of its own: what is to be told at its end."""
    to_tell: list[Any] = []
    monkeypatch.setattr(work, "is_program", lambda: True)
    monkeypatch.setattr(work, "PROCESS_END", SimpleNamespace(tell=to_tell.append))
    return to_tell


def test_a_block_that_went_well_is_told_when_the_process_has_ended_as_it_ended(
    bus: Bus, ends: list[Any]
) -> None:
    with completion_event(session(), "orders"):
        pass
    with completion_event(session(), "rates"):
        pass
    assert bus.sent == []
    ends[0](None)
    ends[1](ValueError("after it"))
    assert [(event.subject, event.type.rpartition(".")[2]) for _, event in bus.sent] == [
        ("orders", "succeeded"),
        ("rates", "failed"),
    ]


def test_a_block_that_failed_is_told_at_once(bus: Bus, ends: list[Any]) -> None:
    with pytest.raises(KeyError), completion_event(session(), "orders"):
        raise KeyError
    assert (len(bus.sent), ends) == (1, [])


def test_until_block_tells_at_once_whatever_the_process_does_later(bus: Bus, ends: list[Any]) -> None:
    with completion_event(session(), "orders", until="block"):
        pass
    assert (len(bus.sent), ends) == (1, [])
    with pytest.raises(CompletionError, match="until is 'end'"):
        completion_event(session(), "orders", until="end")  # type: ignore[arg-type]


def test_a_required_event_that_is_not_sent_at_the_end_ends_the_process_with_1(
    bus: Bus, ends: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[int] = []
    monkeypatch.setattr(work.os, "_exit", left.append)
    bus.refuses = True
    for required in (False, True):
        with completion_event(session(), "orders", required=required):
            pass
        ends.pop()(None)
    assert left == [1]
    with completion_event(session(), "orders", required=True):
        pass
    ends.pop()(ValueError("it failed by itself"))
    assert left == [1]


def test_where_the_submitting_task_looks_for_reports_nothing_is_sent(bus: Bus, tmp_path: Path) -> None:
    spark = session(**{"report.dir": str(tmp_path)})
    with completion_event(spark, "orders", data={"date": "2026-11-20"}):
        [begun] = reports_in(tmp_path)
        assert (begun.ended, begun.data) == (False, {"date": "2026-11-20"})
    [ended] = reports_in(tmp_path)
    assert (ended.ended, ended.failure, bus.sent) == (True, None, [])
    with pytest.raises(KeyError), completion_event(spark, "orders"):
        raise KeyError("cents")
    [failed] = reports_in(tmp_path)
    assert failed.failure is not None
    assert failed.failure.name == "KeyError"


# -- other things


def test_data_of_the_configuration_is_told_and_the_authors_own_goes_before_it(bus: Bus) -> None:
    spark = session(**{"data.date": "2026-11-20", "data.region": "eu"})
    with completion_event(spark, "orders", data={"region": "us"}):
        pass
    assert payload(bus) | {"application": 0} == {"date": "2026-11-20", "region": "us", "application": 0}


@pytest.mark.parametrize("module", ["pyspark.sql.session", "pyspark.sql.connect.session"])
def test_a_function_is_told_with_the_session_among_its_arguments(
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


def test_a_function_without_any_session_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    # Another test of this process may have left one open.
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", None)

    @with_completion_event("orders")
    def main() -> None:
        pytest.fail("the work began")

    with pytest.raises(CompletionError, match="make one before"):
        main()
