"""`airflow interlock subscriptions` and `explain` on a bus where an engine runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Producer
from interlock import count, dag_run, event, task_instance
from interlock.engine.records import StateRecord, encode_msgpack, state_key
from interlock.engine.waiting.acknowledge import acknowledge

ORDERS = event("orders", by="data.day", label="orders")
RATES = event("rates", by="data.day", where="data.rows > 0", label="rates")


def test_a_half_met_wait_is_listed_shown_and_explained_until_it_fires(
    interlock: Any, bench: Any, eventually: Any
) -> None:
    with bench.engine(), bench.waiting() as waiting:
        wait = waiting("airflow/d/r/ready", ORDERS & RATES, "2026-11-20")
        bench.emit("orders", id="o", data={"day": "20261120"})
        bench.emit("rates", id="r", data={"day": "2026-11-20", "rows": 0})

        def half_met() -> Any:
            rows = interlock("subscriptions", "list", "--pending").rows()
            return rows and rows[0]["pending"] == "missing rates" and rows[0]

        row = eventually("the orders are taken in", half_met)
        assert (row["subscription"], row["kind"], row["key"]) == (
            "airflow/d/r/ready",
            "one-shot",
            "2026-11-20",
        )
        eventually(
            "its process names it", lambda: interlock("subscriptions", "list").rows()[0]["waited_for_by"]
        )
        shown = json.loads(interlock("subscriptions", "show", "ready").out)
        assert shown["open_keys"] == [{"key": "2026-11-20", "events": 1, "missing": ["rates"]}]
        assert shown["holders"][0]["deployment"] == "airflow"
        answer = json.loads(interlock("explain", "ready").out)
        assert (answer["fired"], answer["explanation"]["missing"]) == (False, ["rates"])
        [near] = answer["explanation"]["near_misses"]
        assert near["misses"][0]["event"]["id"] == "r"
        text = interlock("explain", "ready", output="table").out
        assert "[x] orders: o of /test" in text
        assert 'Where("data.rows > 0") refused it' in text
        refused = interlock("subscriptions", "cancel", "ready", "--yes")
        assert (refused.code, "would register it again" in refused.err) == (1, True)
        bench.emit("rates", id="r2", data={"day": "2026-11-20", "rows": 1})
        wait.firing()
        answer = json.loads(interlock("explain", "ready").out)
        assert answer["fired"]
        assert any("its task has not received it yet" in note for note in answer["notes"])
        delivery = wait.firing()
        acknowledge(bench.config, delivery.action, delivery.registration_keys)
        for name in ("d/r/ready", "airflow/d/r/ready", "ready"):
            eventually(
                "it is no longer registered",
                lambda name=name: (
                    (notes := json.loads(interlock("explain", name).out)["notes"])
                    and "no longer registered" in notes[0]
                ),
            )
        text = interlock("explain", "ready", output="table")
        assert (text.code, "its task has received it" in text.out, "never" in text.out) == (0, True, False)


def test_keys_that_have_fired_are_not_counted_as_open(interlock: Any, bench: Any, eventually: Any) -> None:
    bench.subscribe("settle", ORDERS & RATES)
    with bench.engine():
        for kind in ("orders", "rates"):
            bench.emit(kind, id=kind, data={"day": "2026-11-19", "rows": 1})
        bench.emit("orders", id="o2", data={"day": "2026-11-20"})
        found = eventually(
            "one has fired",
            lambda: (
                (row := interlock("subscriptions", "list", "--pending").rows()[0])["pending"]
                == "open keys: 1 (missing rates), kept to recognise repeats: 1"
                and row
            ),
        )
        assert found["subscription"] == "settle"
        answer = json.loads(interlock("explain", "settle").out)
        assert answer["open_keys"] == 1
        assert any(
            "Keys without pending matches, because they fired or were reset: 1." in n for n in answer["notes"]
        )
        # nobody dispatches it here
        assert "has fired; open firings that were not dispatched yet: 1, the oldest" in answer["notes"][0]


def test_a_durable_subscription_whose_only_key_fired_misses_nothing(
    interlock: Any, bench: Any, eventually: Any
) -> None:
    """It was shown as "missing orders, rates", as if what had fired had never been met."""
    unkeyed = event("orders", label="a") & event("rates", label="b")
    conditions = {"fired": ORDERS & RATES, "single": ORDERS, "unkeyed": unkeyed, "never": event("other")}
    for name, condition in conditions.items():
        bench.subscribe(name, condition)
    bench.subscribe("open", ORDERS & event("stock", by="data.day", label="stock"))

    def pending() -> dict[str, str]:
        rows = interlock("subscriptions", "list", "--pending").rows()
        return {row["subscription"]: row["pending"] for row in rows}

    assert set(pending().values()) == {"open keys: 0"}
    with bench.engine():
        for kind in ("orders", "rates"):
            bench.emit(kind, id=kind, data={"day": "2026-11-20", "rows": 1})
        fired = "open keys: 0, kept to recognise repeats: 1"
        expected = {"fired": fired, "single": fired, "unkeyed": fired, "never": "open keys: 0"}
        expected["open"] = "open keys: 1 (missing stock)"
        eventually("the events are taken in", lambda: pending() == expected)
        for name in ("fired", "single", "unkeyed"):
            shown = json.loads(interlock("subscriptions", "show", name).out)
            assert (shown["pending"], shown["open_keys"]) == (fired, [])


def test_the_open_keys_of_a_durable_subscription_are_counted_and_one_is_explained(
    interlock: Any, bench: Any, eventually: Any
) -> None:
    bench.subscribe("settle", ORDERS & RATES)
    with bench.engine():
        for day in ("2026-11-19", "2026-11-20"):
            bench.emit("orders", id=day, data={"day": day})
        found = eventually(
            "both are open",
            lambda: (answer := json.loads(interlock("explain", "settle").out))["open_keys"] == 2 and answer,
        )
        assert {each["key"] for each in found["keys"]} == {"2026-11-19", "2026-11-20"}
        assert found["explanation"] is None
        one = json.loads(interlock("explain", "settle", "--key", "20261119").out)
        assert (one["explanation"]["key"], one["explanation"]["missing"]) == ("2026-11-19", ["rates"])
        other = json.loads(interlock("explain", "settle", "--key", "2026-11-21").out)
        assert other["explanation"]["missing"] == ["orders", "rates"]
        assert interlock("subscriptions", "cancel", "settle", answer="n").code == 1
        assert interlock("subscriptions", "cancel", "settle", answer="y").rows()[0]["state"] == "cancelled"
        assert interlock("subscriptions", "list").rows() == []
        eventually(
            "what was pending is dropped",
            lambda: all(
                {r.key: r.value for r in bench.records("state")}[record.key] is None
                for record in bench.records("state")
                if b"/" in record.key
            ),
        )


def test_an_unregistered_wait_is_reported_and_a_missing_engine_named(interlock: Any, bench: Any) -> None:
    missing = interlock("explain", "nothing")
    assert missing.code == 1
    # the harmless cause, which comes to an end by itself, is the first
    assert "has 'nothing' in its name. A wait's task has not deferred yet, or its trigger" in missing.err
    assert "was never registered" in missing.err
    bench.subscribe("d", event("a"))
    answer = json.loads(interlock("explain", "d").out)
    assert any("The bus has no engine" in note for note in answer["notes"])


@pytest.mark.usefixtures("airflow_database")
def test_an_event_that_this_airflow_does_not_emit_is_named(
    interlock: Any, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wait for a task's event said only that it is missing, with a listener that emits the ends of runs."""
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session

    monkeypatch.setenv("AIRFLOW__INTERLOCK__LISTENER", "dag_run")
    loaded = task_instance("ingest", "load")
    names = ("airflow/d/r/task", "airflow/d/r/run", "other/d/r/task")
    for name, condition in zip(names, (loaded, dag_run("ingest"), loaded), strict=True):
        bench.subscribe(name, condition)
    with create_session() as session:
        session.merge(DagBundleModel(name="interlock-tests"))
        session.flush()
        session.add(DagModel(dag_id="ingest", bundle_name="interlock-tests"))

    def notes(name: str) -> list[str]:
        answer = json.loads(interlock("explain", name).out)
        return [note for note in answer["notes"] if "listener" in note]

    try:
        [note] = notes(names[0])
        assert "emits dag_run ends only ([interlock] listener), so no task_instance event of DAG 'ing" in note
        assert f"! {note}" in interlock("explain", names[0], output="table").out
        assert [notes(name) for name in names[1:]] == [[], []]
        bench.emit("interlock.airflow.task_instance.failed", subject="ingest/load")  # by reconcile, say
        assert notes(names[0]) == []
    finally:
        with create_session() as session:
            session.query(DagModel).filter_by(dag_id="ingest").delete()


def test_only_the_named_firing_is_discarded_and_only_after_confirmation(
    interlock: Any, bench: Any, eventually: Any
) -> None:
    bench.subscribe("airflow/dispatch/settle", event("trade", by="subject"))
    with bench.engine():
        for number in range(3):
            bench.emit("trade", id=f"t{number}", subject="eu")
        fired = bench.eventually_fired("airflow/dispatch/settle", 3)
    bad, *rest = [each["firing"]["id"] for each in fired]

    def still_open() -> set[str]:
        latest = {record.key: json.loads(record.value) for record in bench.records("action")}
        return {each["firing"]["id"] for each in latest.values() if each["state"] == "fired"}

    declined = interlock("subscriptions", "skip", "settle", bad, answer="n")
    assert (declined.code, "Nothing was changed." in declined.err) == (1, True)
    assert f"Discard firing {bad} of 'airflow/dispatch/settle' (met at " in declined.err
    assert still_open() == {bad, *rest}
    [row] = interlock("subscriptions", "skip", "settle", bad, "--yes").rows()
    assert (row["firing"], row["key"], row["state"]) == (bad, "eu", "skipped")
    assert still_open() == set(rest)
    answer = json.loads(interlock("explain", "settle").out)
    assert any("open firings that were not dispatched yet: 2" in note for note in answer["notes"])
    # events that fired are shown with their firing, not as "not read yet"
    [found] = answer["explanation"]["near_misses"]
    assert ([miss["why"] for miss in found["misses"]], found["counted"]) == (["fired", "fired"], 1)
    assert any(miss["firing"].startswith(f"firing {rest[-1]} of ") for miss in found["misses"])
    for gone in (bad, "0" * 32):
        again = interlock("subscriptions", "skip", "settle", gone, "--yes")
        assert (again.code, f"has no open firing '{gone}'" in again.err) == (1, True)
    # what it fired before it was cancelled can be thrown away too, by its whole name
    interlock("subscriptions", "cancel", "settle", "--yes").rows()
    interlock("subscriptions", "skip", "airflow/dispatch/settle", rest[0], "--yes").rows()
    assert still_open() == set(rest[1:])


def test_a_firing_is_found_by_the_whole_name_of_its_subscription_before_a_part_of_the_name(
    interlock: Any, bench: Any
) -> None:
    cancelled, standing = "airflow/dispatch/settle", "airflow/dispatch/settle_eu"
    bench.subscribe(cancelled, event("trade", by="subject"))
    with bench.engine():
        bench.emit("trade", subject="eu")
        bench.emit("trade", subject="us")
        ids = [each["firing"]["id"] for each in bench.eventually_fired(cancelled, 2)]
    interlock("subscriptions", "cancel", cancelled, "--yes").rows()
    bench.subscribe(standing, event("quote", by="subject"))
    [row] = interlock("subscriptions", "skip", cancelled, ids[0], "--yes").rows()
    assert (row["subscription"], row["firing"]) == (cancelled, ids[0])
    again = interlock("subscriptions", "skip", cancelled, ids[0], "--yes")
    assert (again.code, f"has no open firing '{ids[0]}'" in again.err) == (1, True)
    # nor do several that have it in their names come in between
    bench.subscribe("airflow/dispatch/settle_us", event("quote", by="subject"))
    [row] = interlock("subscriptions", "skip", cancelled, ids[1], "--yes").rows()
    assert (row["subscription"], row["firing"]) == (cancelled, ids[1])
    unknown = interlock("subscriptions", "skip", cancelled, "0" * 32, "--yes")
    assert (unknown.code, "Give one name." in unknown.err) == (1, True)


def test_a_firing_of_more_than_a_megabyte_is_discarded_like_any_other(interlock: Any, bench: Any) -> None:
    bench.subscribe("airflow/dispatch/large", count(event("trade", by="subject"), 20))
    with bench.engine():
        for number in range(20):
            bench.emit("trade", id=f"t{number}", subject="eu", data={"pad": "x" * 60_000})
        [fired] = bench.eventually_fired("airflow/dispatch/large", 1)
    assert len(json.dumps(fired)) > 1_000_000
    [row] = interlock("subscriptions", "skip", "large", fired["firing"]["id"], "--yes").rows()
    assert row["state"] == "skipped"
    [*_, acked] = bench.records("action")
    assert (acked.json()["state"], acked.json()["firing"]["id"]) == ("acked", fired["firing"]["id"])
    assert len(acked.value) < 64 * 1024  # nobody reads what took part in it any more


def test_a_firing_of_a_wait_cannot_be_skipped(interlock: Any, bench: Any, eventually: Any) -> None:
    with bench.engine(), bench.waiting() as waiting:
        wait = waiting("airflow/d/r/w", event("a"))
        bench.emit("a")
        firing = wait.firing().action.firing
        refused = interlock("subscriptions", "skip", "airflow/d/r/w", firing.id, "--yes")
        assert (refused.code, "belongs to its task" in refused.err) == (1, True)


@pytest.mark.parametrize("words", [("explain", "caf\udce9"), ("subscriptions", "skip", "s", "caf\udce9")])
def test_an_argument_that_is_not_utf8_is_refused_by_a_sentence(
    interlock: Any, words: tuple[str, ...]
) -> None:
    ran = interlock(*words)
    assert (ran.code, "an argument is not text in UTF-8" in ran.err) == (1, True)


def test_a_damaged_state_hides_no_other_subscription(interlock: Any, bench: Any) -> None:
    """`subscriptions list --pending` ended with "the stored state cannot be read", and listed nothing."""
    bench.subscribe("good", ORDERS)
    damaged = bench.subscribe("damaged", ORDERS & RATES).incarnation
    state = StateRecord(v=1, registry_offset=1, wakeup_ms=None, state=b"\xc1")
    producer = Producer(dict(bench.config.client))
    key, value = state_key(damaged, "2026-11-20"), encode_msgpack(state)
    producer.produce(bench.config.topic("state"), value, key, partition=0)
    assert producer.flush(20) == 0
    rows = interlock("subscriptions", "list", "--pending").rows()
    assert {row["subscription"]: row["pending"] for row in rows} == {
        "good": "open keys: 0",
        "damaged": "its state record cannot be read",
    }
    explained = interlock("explain", "damaged")
    assert explained.code == 1
    assert "The state record of key '2026-11-20' of 'damaged'" in explained.err
    assert "subscriptions cancel damaged" in explained.err
