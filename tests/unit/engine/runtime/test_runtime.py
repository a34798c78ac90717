"""The runtime: one for each bus and connection, kept through changes of the connection."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest
from interlock import event
from interlock.engine.config import BusConfig
from interlock.engine.errors import TopicsError, UnreachableError
from interlock.engine.kafka import wait_clients
from interlock.engine.protocol.context import Clocks
from interlock.engine.protocol.poison.suspects import process_of
from interlock.engine.records import Registration
from interlock.engine.runtime import loops
from interlock.engine.runtime import runtime as module
from interlock.engine.runtime.failures import EngineFailures
from interlock.engine.runtime.runtime import ENGINE, EngineProcess, Runtime, run_engine
from interlock.engine.waiting.dispatching import Durable
from interlock.engine.waiting.notices import NoticeBoard
from interlock.engine.waiting.waits import Waits
from structlog.contextvars import clear_contextvars

from tests.unit.engine.runtime.cluster import Cluster

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "one:1"})
OTHER = BusConfig(name="b", client={"bootstrap.servers": "two:2"})


@pytest.fixture(autouse=True)
def _no_field_of_an_engine_stays() -> Iterator[None]:
    """Engines run in the thread of the tests here."""
    yield
    clear_contextvars()


@pytest.fixture
def runtime() -> Runtime:
    return Runtime(CONFIG)


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(Runtime, "start", lambda self: None)
    monkeypatch.setattr(Runtime, "running", {})
    monkeypatch.setattr(module.atexit, "register", lambda call: None)
    return


@pytest.mark.usefixtures("no_threads")
def test_a_rotated_secret_keeps_the_runtime_and_its_open_waits() -> None:
    first = Runtime.of(CONFIG)
    assert Runtime.of(OTHER) is first
    assert first.config is OTHER
    elsewhere = BusConfig(name="b", client=dict(OTHER.client), connection="kafka_other")
    assert Runtime.of(elsewhere) is not first


@pytest.mark.usefixtures("no_threads")
def test_a_process_that_was_forked_has_a_runtime_and_clients_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = Runtime.of(CONFIG)
    monkeypatch.setattr(module.os, "getpid", lambda: -1)
    assert Runtime.of(CONFIG) is not first


@pytest.mark.usefixtures("no_threads")
def test_a_runtime_for_which_no_thread_can_be_started_is_made_again_by_the_next_trigger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was kept: no later trigger started its threads, and their waits never ended."""

    failed: list[Runtime] = []

    def no_thread(runtime: Runtime) -> None:
        failed.append(runtime)
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as without:
        without.setattr(Runtime, "start", no_thread)
        with pytest.raises(RuntimeError, match="new thread"):
            Runtime.of(CONFIG)
    assert Runtime.running == {}
    assert failed[0]._stopped.is_set(), "the threads that were started end"
    assert Runtime.of(CONFIG) is Runtime.of(CONFIG)


def test_of_all_waits_with_an_error_one_reads_the_connection_now_and_then(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    assert [runtime.may_read_connection() for _ in range(3)] == [True, False, False]
    now[0] += module.READ_AGAIN_S
    assert runtime.may_read_connection()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster()
    cluster.stand_in(module, monkeypatch.setattr)
    return cluster


def test_a_hanging_engine_is_fenced_before_its_successor_begins_and_does_nothing_when_it_returns(
    cluster: Cluster, runtime: Runtime
) -> None:
    hangs, returns, second = threading.Event(), threading.Event(), threading.Event()
    loop = next(each for each in runtime._loops if each.name == ENGINE)

    def run_pass() -> None:
        if cluster.made == 1:
            hangs.set()
            returns.wait(30)
        else:
            second.set()
            threading.Event().wait(0.01)

    cluster.run_pass = run_pass
    loop.start()
    assert hangs.wait(30)
    old = loop._thread
    loop.replace("hangs.")
    assert second.wait(30)
    loop.stop()
    loop.join(30)
    cluster.log.append("returns")
    returns.set()
    assert old is not None
    old.join(30)
    done = [entry for entry in cluster.log if entry != "looks"]
    assert done == ["id-1 begins", "id-2 fences id-1", "id-2 begins", "id-2 closes", "returns", "id-1 closes"]
    hanging, successor = map(process_of, cluster.ids)
    assert hanging != successor, "to others the process has ended on what it hangs in"


def test_an_engine_that_could_not_fence_the_one_before_does_not_begin_and_the_next_one_fences_it(
    cluster: Cluster,
) -> None:
    process = EngineProcess(open_ids={"id-0"})
    stop = threading.Event()
    cluster.reachable = False
    with pytest.raises(UnreachableError):
        run_engine(CONFIG, stop, process=process)
    assert cluster.log == ["id-1 closes"]
    assert process.open_ids == {"id-0"}
    cluster.reachable = True
    cluster.run_pass = stop.set
    run_engine(CONFIG, stop, process=process)
    assert cluster.log[1:] == ["id-2 fences id-0", "id-2 begins", "id-2 closes"]
    assert process.open_ids == set()


def test_an_engine_that_failed_and_was_closed_is_not_fenced(cluster: Cluster, runtime: Runtime) -> None:
    over = threading.Event()
    loop = next(each for each in runtime._loops if each.name == ENGINE)

    def run_pass() -> None:
        if cluster.made == 1:
            raise UnreachableError("no answer")
        loop.stop()
        over.set()

    cluster.run_pass = run_pass
    loop.start()
    assert over.wait(30)
    loop.join(30)
    assert cluster.log == ["id-1 begins", "id-1 closes", "id-2 begins", "id-2 closes"]
    assert cluster.ended == ["id-2"], "the one that failed did not end cleanly"
    first, second = cluster.ids
    assert first.startswith("b-engine-airflow-")
    assert first.endswith(".1")
    assert second == f"{process_of(first)}.2"


def test_engines_and_waits_begin_without_the_dead_letter_topic(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What needs it waits for it, and nothing else."""

    def check(config: BusConfig, *, dead_letters: bool = True) -> dict[str, int]:
        if dead_letters:
            raise TopicsError("Topic 'b-dead-letter' is missing.")
        raise UnreachableError("the check passed")

    for using in (module, wait_clients):
        monkeypatch.setattr(using, "check", check)
    with pytest.raises(UnreachableError, match="the check passed"):
        run_engine(CONFIG, threading.Event())
    with pytest.raises(UnreachableError, match="the check passed"):
        Waits(CONFIG, NoticeBoard()).run(threading.Event())


def test_the_settings_of_the_topics_are_looked_at_again_now_and_then(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A cluster that does not answer this stops no engine; settings that were altered do."""
    now, passes, looks = [0.0], [0], [0]

    def run_pass() -> None:
        now[0] += 10
        passes[0] += 1
        assert passes[0] < 1000

    def check(config: BusConfig) -> None:
        looks[0] += 1
        if looks[0] == 2:
            raise UnreachableError("no answer")
        if looks[0] == 3:
            raise TopicsError("Topic 'b-state' has cleanup.policy=delete.")

    cluster.run_pass = run_pass
    monkeypatch.setattr(loops, "check_settings", check)
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    with caplog.at_level(logging.WARNING, "interlock.engine"), pytest.raises(TopicsError, match="b-state"):
        run_engine(CONFIG, threading.Event())
    assert passes == [3 * module.CHECK_S / 10]
    assert "no answer" in caplog.text
    assert cluster.log[-1] == "id-1 closes"


class Unused:
    """A runtime whose engine has failed for `failed_s`, `idle_s` after a trigger last asked for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, idle_s: float, failed_s: float) -> None:
        now = [1000.0]
        monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
        self.runtime = Runtime.of(CONFIG)
        self.runtime._failures = EngineFailures(
            "p", lambda *_: None, lambda work: None, Clocks(monotonic=lambda: now[0])
        )
        now[0] += idle_s - failed_s
        self.runtime._failures.failed(CONFIG, UnreachableError("refused"))
        now[0] += failed_s
        self.runtime._failures.failed(CONFIG, UnreachableError("refused"))

    def ends(self) -> bool:
        self.runtime.end_if_unused(UnreachableError("refused"))
        return Runtime.of(CONFIG) is not self.runtime


@pytest.mark.usefixtures("no_threads")
@pytest.mark.parametrize(
    ("idle_s", "failed_s", "ends"),
    [
        pytest.param(700, 700, True, id="nobody uses it, and it cannot run"),
        pytest.param(700, 500, False, id="it has not failed for long"),
        pytest.param(500, 500, False, id="a trigger has just asked for it"),
    ],
)
def test_an_engine_for_a_connection_that_nothing_uses_any_more_does_not_retry_for_ever(
    monkeypatch: pytest.MonkeyPatch, idle_s: float, failed_s: float, ends: bool
) -> None:
    """A connection that was renamed or deleted while its waits ended."""
    assert Unused(monkeypatch, idle_s, failed_s).ends() is ends


@pytest.mark.usefixtures("no_threads")
def test_an_engine_with_an_open_wait_or_dispatcher_retries_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    unused = Unused(monkeypatch, 700, 700)
    waits = unused.runtime.waits
    wait = waits.open(Registration.of("w", event("x"), None, 0), lambda _: None)
    assert not unused.ends()
    waits.close(wait)
    durable = Durable(
        subscription="d",
        condition=event("x").to_json(),
        since_ms=0,
        since_given=False,
        max_keys=1,
        at_limit="dead-letter",
    )
    stream = waits.dispatching.open(durable, lambda _: None)
    assert waits.in_use
    waits.dispatching.close(stream)
    assert not waits.in_use


def test_an_engine_without_triggers_retries_for_ever(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    """`airflow interlock engine`."""
    runtime.end_if_unused(UnreachableError("refused"))
    assert not runtime._stopped.is_set()


@pytest.mark.parametrize("failure", [None, UnreachableError("The broker is gone.")])
def test_a_stop_that_could_not_be_recorded_is_a_warning_that_says_what_follows(
    failure: UnreachableError | None, caplog: pytest.LogCaptureFixture
) -> None:
    """An aborted transaction was only a line of level INFO, which did not say that the stop was not clean."""

    class Unclean:
        def end(self) -> bool:
            if failure is not None:
                raise failure
            return False

    caplog.set_level(logging.WARNING, "interlock.engine")
    module._record_stop(cast("Any", Unclean()))
    [line] = caplog.records
    assert "could not record that it was stopped" in line.getMessage()
    assert "up to 10,000 records" in line.getMessage()
    assert (str(failure) if failure else "aborted") in line.getMessage()
