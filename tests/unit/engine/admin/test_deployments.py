"""Who else uses the bus: other names, and another Airflow of the same name."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from interlock import event
from interlock.engine.admin.deployments import deployments
from interlock.engine.admin.findings import AirflowInfo, DagRunId
from interlock.engine.bus import End, Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.following.subscriptions import Subscriptions
from interlock.engine.records import Kind, LeaseRecord, Registration, RegistrationKey, encode_json
from interlock.engine.registry.lazy import LazyRegistry

NOW_MS = 10_000_000_000
MINUTE_MS = 60_000
SOLO = event("t")
TOPIC = TopicPartition("b-subscription", 0)


class There(Subscriptions):
    """Subscriptions: {name: (deployment of the process with a lease for it, how old the lease is in ms)}.

    Those of dispatchers and watchers are durable.
    """

    def __init__(self, own: str, **leases: tuple[str, int]) -> None:
        config = BusConfig(name="b", deployment=own, client={"bootstrap.servers": "one:1"})
        registry = LazyRegistry()
        for place, (name, (deployment, ago_ms)) in enumerate(leases.items()):
            kind: Kind = "durable" if {"dispatch", "deliver", "asset"} & set(name.split("__")) else "one-shot"
            registration = Registration.of(name.replace("__", "/"), SOLO, None, 0, kind=kind)
            lease = LeaseRecord(deployment=deployment, incarnations=[registration.incarnation], host="host-7")
            key = RegistrationKey(registration.incarnation, "n").encode()
            registry.apply(Record(TOPIC, 2 * place, 0, key, encode_json(registration), None))
            key, renewed_ms = f"lease/p/{place}".encode(), NOW_MS - ago_ms
            registry.apply(Record(TOPIC, 2 * place + 1, renewed_ms, key, encode_json(lease), None))
        registry.apply(End(TOPIC, 2 * len(leases)))
        super().__init__(config, registry)
        self.now_ms = NOW_MS


def has(*runs: DagRunId, dags: Collection[str] = (), hosts: Collection[str] | None = None) -> AirflowInfo:
    """An Airflow with these runs and dispatchers, whose triggerers run on these hosts."""

    def unknown(asked: Collection[DagRunId]) -> Collection[DagRunId]:
        return set(asked) - set(runs)

    def unknown_dags(asked: Collection[str]) -> Collection[str]:
        return set(asked) - set(dags)

    return AirflowInfo("3.3.2", unknown_runs=unknown, unknown_dags=unknown_dags, triggerer_hosts=hosts)


def levels(subscriptions: Subscriptions, host: AirflowInfo) -> list[str]:
    return [found.level for found in deployments(subscriptions, host)]


def test_a_wait_of_this_name_whose_run_is_unknown_here_is_another_airflows() -> None:
    there = There("airflow", airflow__d__r1__t=("airflow", 0), airflow__d__r2__t=("airflow", 0))
    wrong, ok = deployments(there, has(("d", "r1")))
    assert (wrong.level, ok.level) == ("wrong", "ok")
    assert "on host 'host-7' waits for 'airflow/d/r2/t'" in wrong.text
    assert "[interlock] deployment" in wrong.text


def test_waits_that_this_airflow_has_or_that_nobody_holds_any_more_are_no_sign() -> None:
    there = There("airflow", airflow__d__r1__t=("airflow", 0), airflow__d__r2__t=("airflow", 7 * MINUTE_MS))
    assert levels(there, has(("d", "r1"))) == ["ok"]


def test_another_deployment_is_shown_and_the_default_name_beside_it_is_noted() -> None:
    [ok] = deployments(There("blue", green__d__r__t=("green", 0)), has())
    assert (ok.level, "others on the bus: green" in ok.text) == ("ok", True)
    [note] = deployments(There("airflow", green__d__r__t=("green", 0)), has())
    assert (note.level, "and green use the bus as well" in note.text) == ("note", True)


def test_without_a_database_the_answer_is_that_nothing_is_known() -> None:
    there = There("airflow", airflow__d__r1__t=("airflow", 0))
    assert levels(there, AirflowInfo("3.3.2")) == ["note", "ok"]


def test_a_few_of_many_runs_of_another_airflow_are_shown() -> None:
    there = There("airflow", **{f"airflow__d__r{n}__t": ("airflow", 0) for n in range(9)})
    found = list(deployments(there, has()))
    assert [each.level for each in found] == ["wrong"] * 4 + ["ok"]
    assert found[3].text == "Further runs and DAGs of another Airflow: 6."


@pytest.mark.parametrize("kind", ["dispatch", "deliver"])
def test_a_dispatcher_of_this_name_whose_dag_is_unknown_here_is_another_airflows(kind: str) -> None:
    leases = {f"airflow__{kind}__{dag}": ("airflow", 0) for dag in "ab"}
    wrong, ok = deployments(There("airflow", **leases), has(dags=["a"]))
    assert (wrong.level, ok.level) == ("wrong", "ok")
    assert f"on host 'host-7' waits for 'airflow/{kind}/b', a DAG that this Airflow does not" in wrong.text


@pytest.mark.parametrize("name", ["airflow__dispatch__a", "airflow__asset__a", "airflow__d__r__t"])
def test_a_wait_of_both_airflows_is_noted_if_its_host_has_no_triggerer_of_this_one(
    name: str,
) -> None:
    def found(*hosts: str, ago_ms: int = 0) -> list[str]:
        there = There("airflow", **{name: ("airflow", ago_ms)})
        return levels(there, has(("d", "r"), dags=["a"], hosts=hosts))

    assert found("host-6.example.com") == ["note", "ok"]
    assert found() == ["note", "ok"]
    assert found("HOST-7.example.com", "host-6") == ["ok"]
    assert found("host-6", ago_ms=7 * MINUTE_MS) == ["ok"]


def test_a_host_is_noted_once_and_not_where_the_name_is_known_to_be_shared() -> None:
    there = There("airflow", **{f"airflow__dispatch__d{n}": ("airflow", 0) for n in range(9)})
    note, _ = deployments(there, has(dags=[f"d{n}" for n in range(9)], hosts=["host-6"]))
    assert "no triggerer of this Airflow ran there lately" in note.text
    assert "note" not in levels(there, has(hosts=["host-6"]))
