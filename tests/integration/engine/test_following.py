"""A follower on a real broker: what it sees, what explanations say from it, and what it survives."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from interlock import event
from interlock.engine.admin.explaining import SubscriptionReport, explain_subscription
from interlock.engine.config import BusConfig
from interlock.engine.errors import EngineError, HasFired, StillReading, TopicsError
from interlock.engine.following.follower import Follower
from interlock.engine.following.kafka_view import KafkaView
from interlock.engine.following.pace import Pace
from interlock.engine.following.read_model import ReadModel, Rows
from interlock.engine.following.view import BusView
from interlock.engine.kafka.topics import create
from interlock.engine.waiting.acknowledge import acknowledge_all
from interlock.plugin.broker import LocalBroker

from .conftest import Bench
from .crowd import register

PAIR = event("orders", by="data.day", label="orders") & event("rates", by="data.day", label="rates")
QUICK = Pace(retry_s=0.5, probe_s=0.5, compare_s=1.0)
NAME = "airflow/close/run/wait"
FORKED = """
import json, os, sys, time
from interlock.engine.config import KINDS, BusConfig
from interlock.engine.errors import StillReading
from interlock.engine.following.follower import Follower

follower = Follower(BusConfig(**json.loads(sys.argv[1])))

def names():
    while True:
        try:
            return [each.subscription for each in follower.model().subscriptions.listed()]
        except StillReading:
            time.sleep(0.05)

before = names()
child = os.fork()
print(json.dumps(["child" if child == 0 else "parent", before, names()]), flush=True)
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.fixture
def follower(bench: Bench) -> Iterator[Follower]:
    with closing(Follower(bench.config, QUICK)) as made:
        yield made


def ready(follower: Follower, eventually: Callable[..., Any]) -> ReadModel:
    def model() -> ReadModel | None:
        try:
            return follower.model()
        except StillReading:
            return None

    return eventually("the model is read", model)


def names(model: ReadModel) -> list[str]:
    return [each.registration.subscription for each in model.page(Rows(), 100).rows]


def words(report: SubscriptionReport) -> tuple[Any, ...]:
    """What a report says, without the moment at which it does."""
    explanation = None if report.explanation is None else report.explanation.to_json()
    if explanation is not None:
        explanation = {name: value for name, value in explanation.items() if name != "now_ms"}
    return (
        report.registered.incarnation,
        report.closed,
        explanation,
        report.keys,
        report.key_count,
        report.notes,
        report.sink,
    )


def test_registrations_states_firings_and_removals_are_seen_as_they_come(
    bench: Bench, follower: Follower, eventually: Any
) -> None:
    with bench.engine(), bench.waiting() as waiting:
        assert names(ready(follower, eventually)) == []
        wait = waiting(NAME, PAIR, "2026-11-20")
        eventually("it is registered", lambda: names(follower.model()) == [NAME])
        registered = follower.model().by_name(NAME)
        assert registered is not None
        [holder] = eventually(
            "a process holds it", lambda: follower.model().subscriptions.held_by(registered)
        )
        assert holder.deployment == "airflow"
        bench.emit("orders", data={"day": "2026-11-20"}, subject="s")
        pending = eventually("it is half met", lambda: follower.model().pending(registered).keys)
        assert list(pending) == ["2026-11-20"]
        assert follower.model().open_keys(registered) == 1
        bench.emit("rates", data={"day": "2026-11-20"}, subject="s")
        firing = wait.firing()
        [fired] = eventually("it has fired", lambda: follower.model().firings(9).rows)
        assert (fired.subscription, fired.key, fired.open) == (NAME, "2026-11-20", True)
        assert {label: [each.type for each in events] for label, events in fired.events.items()} == {
            "orders": ["orders"],
            "rates": ["rates"],
        }
        assert follower.model().pending(registered).closed
        acknowledge_all(bench.config, [firing.action])
        eventually("it is acknowledged", lambda: not follower.model().firings(9).rows[0].open)
        durable = bench.subscribe("airflow/dispatch/close", PAIR)
        eventually("a dispatcher's too", lambda: follower.model().by_name(durable.subscription))
        found = follower.model().subscriptions.find("dispatch/close")
        follower.model().subscriptions.cancel(found)
        eventually("it is cancelled", lambda: follower.model().by_name(durable.subscription) is None)


def test_explanations_from_the_model_say_what_those_from_kafka_say(
    bench: Bench, follower: Follower, eventually: Any
) -> None:
    """Of a wait, of a subscription with open keys and firings, and of a wait that has fired."""
    durable = bench.subscribe("airflow/dispatch/close", PAIR)
    with bench.engine(), bench.waiting() as waiting:
        wait = waiting(NAME, PAIR, "2026-11-20")
        other = waiting("airflow/other/run/wait", event("rates", by="data.day"), "2026-11-21")
        for kind, day in (("orders", 20), ("orders", 21), ("rates", 21), ("orders", 22), ("rated", 20)):
            bench.emit(kind, data={"day": f"2026-11-{day}"}, subject="s")
        other.firing()
        bench.eventually_fired(durable.subscription, 1)
    bench.records("state")
    model = ready(follower, eventually)

    def view_of(name: str) -> BusView:
        return KafkaView.read(bench.config, about=name)

    def both(name: str, key: str | None = None) -> list[tuple[Any, ...]]:
        return [words(explain_subscription(view, name, key)) for view in (view_of(name), follower.model())]

    def is_same(name: str, key: str | None) -> bool:
        from_kafka, from_model = both(name, key)
        return from_kafka == from_model

    for name, key in (
        (NAME, None),
        (durable.subscription, None),
        (durable.subscription, "2026-11-20"),
        (durable.subscription, "2026-11-21"),
        ("airflow/other/run/wait", None),
    ):
        eventually(f"{name}, {key}: the same words", partial(is_same, name, key))
    assert not wait.firings
    registered = model.subscriptions.find("airflow/other")
    model.subscriptions.cancel(registered)
    eventually("it is gone", lambda: follower.model().by_name("airflow/other/run/wait") is None)
    said = []
    for view in (view_of("other/run/wait"), follower.model()):
        with pytest.raises(HasFired) as raised:
            explain_subscription(view, "other/run/wait")
        said.append(str(raised.value))
    assert said[0] == said[1]
    assert "fired at" in said[0]


def test_the_thread_ends_when_nobody_asks_and_reads_again_for_the_next_question(
    bench: Bench, eventually: Any
) -> None:
    register(bench.config, [(NAME, PAIR, "k")])
    with closing(Follower(bench.config, replace(QUICK, idle_s=3.0))) as follower:
        first = ready(follower, eventually).version
        register(bench.config, [("airflow/other/run/wait", PAIR, "k")])

        def has_ended() -> bool:
            return follower._watch()._thread is None

        eventually("the thread ends", has_ended)
        with pytest.raises(StillReading):
            follower.model()
        model = ready(follower, eventually)
        assert names(model) == ["airflow/other/run/wait", NAME]
        assert model.version != first


def test_a_process_that_forks_after_it_was_asked_follows_on_in_both(bench: Bench) -> None:
    register(bench.config, [(NAME, PAIR, "k")])
    process = bench.process(FORKED, stdout=subprocess.PIPE)
    out, _ = process.communicate(timeout=120)
    said = {who: (before, after) for who, before, after in map(json.loads, out.splitlines())}
    assert said == {"child": ([NAME], [NAME]), "parent": ([NAME], [NAME])}
    assert process.returncode == 0


def test_topics_that_are_deleted_are_an_error_and_a_new_bus_is_read_from_its_start(
    bench: Bench, follower: Follower, eventually: Any
) -> None:
    register(bench.config, [(NAME, PAIR, "k")])
    assert names(ready(follower, eventually)) == [NAME]
    topics = [
        bench.config.topic(kind)
        for kind in ("event", "trigger", "state", "action", "subscription", "dead-letter")
    ]
    for future in bench.admin.delete_topics(topics).values():
        future.result(30)

    def error() -> EngineError | None:
        try:
            follower.model()
        except StillReading:
            return None
        except EngineError as e:
            return e
        return None

    found = eventually("it is an error", lambda: isinstance(error(), TopicsError) and error())
    assert f"topics create --bus {bench.config.name}" in str(found)
    eventually("the topics are gone", lambda: bool(create(bench.config, partitions=4)[0]))

    def listed() -> list[str] | None:
        try:
            return names(follower.model())
        except EngineError:
            return None

    eventually("the new bus is read", lambda: listed() == [])


@pytest.mark.long
def test_a_broker_that_is_restarted_is_followed_on_and_meanwhile_the_model_is_stale(
    tmp_path: Path, say: Callable[[str], None], eventually: Any
) -> None:
    with LocalBroker(tmp_path / "broker", report=say) as broker:
        config = BusConfig(name="bus", client={"bootstrap.servers": broker.bootstrap_servers})
        create(config, partitions=4)
        register(config, [(NAME, PAIR, "k")])
        with closing(Follower(config, QUICK)) as follower:
            model = ready(follower, eventually)
            assert model.stale_since_ms is None
            broker.stop()
            eventually("it is stale", lambda: follower.model().stale_since_ms)
            assert names(follower.model()) == [NAME]
            broker.start()
            eventually("it is not", lambda: follower.model().stale_since_ms is None)
            register(config, [("airflow/other/run/wait", PAIR, "k")])
            eventually("it follows on", lambda: len(names(follower.model())) == 2)
            assert follower.model() is model
