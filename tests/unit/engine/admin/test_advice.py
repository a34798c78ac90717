"""The commands that are shown for a subscription: what a person copies into a shell."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

from interlock import event
from interlock.conditions import Condition, dag_run, explain
from interlock.conditions.evaluate.state import EMPTY
from interlock.conditions.explanation.wanted import wanted_events
from interlock.engine.admin.advice import advice_for
from interlock.engine.admin.explaining import OpenKey, SubscriptionReport
from interlock.engine.config import BusConfig
from interlock.engine.records import Registration
from interlock.engine.registry.registry import Registered

CONFIG = BusConfig(name="prod", client={"bootstrap.servers": "one:1"})
RATES = event("rates", by="data.day", label="rates")


def commands(
    name: str = "airflow/report/run/wait",
    condition: Condition = RATES,
    config: BusConfig = CONFIG,
    refusal: str = "",
    kind: Any = "one-shot",
    **more: Any,
) -> dict[str, str]:
    registration = Registration.of(name, condition, "k" if kind == "one-shot" else None, 0, kind=kind)
    registered = Registered(registration, condition, 7, 0)
    given = {"explanation": explain(condition, EMPTY, 0), "keys": (), **more}
    report = SubscriptionReport(registered, (), key_count=0, notes=(), **{"closed": False, **given})
    wanted = wanted_events(condition, condition.labels, "k")
    return {each.what: each.command for each in advice_for(config, report, wanted, refusal)}


def test_a_wait_is_explained_shown_fed_and_removed() -> None:
    assert commands() == {
        "Why it has not fired": "airflow interlock explain airflow/report/run/wait --bus prod",
        "Its registration": "airflow interlock subscriptions show airflow/report/run/wait --bus prod",
        "Send rates by hand": """airflow interlock emit rates '--data={"day": "k"}' --bus prod""",
        "Remove it": "airflow interlock subscriptions cancel airflow/report/run/wait --bus prod",
    }


def test_no_event_is_advised_without_the_key_that_a_dispatcher_needs() -> None:
    name = "airflow/dispatch/report"
    assert list(commands(name, kind="durable")) == [
        "What it has, and what it lacks",
        "Its registration",
        "Remove it",
    ]
    of_key = explain(RATES, EMPTY, 0, key="k")
    assert "Send rates by hand" in commands(name, kind="durable", explanation=of_key)


def test_what_would_be_refused_is_not_advised() -> None:
    assert "Remove it" not in commands(refusal="a process waits for it")
    assert "Send rates by hand" not in commands(closed=True)
    assert not [what for what in commands(condition=dag_run("ledger")) if what.startswith("Send")]


def test_another_connection_is_named() -> None:
    config = replace(CONFIG, connection="kafka_eu")
    assert all(each.endswith("--bus prod --conn-id kafka_eu") for each in commands(config=config).values())


def test_the_key_nearest_to_firing_is_explained_if_several_are_open() -> None:
    found = commands(explanation=None, keys=(OpenKey("a b", 1, (), None),))
    assert found["Why it has not fired"].endswith("'--key=a b' --bus prod")


def test_a_name_that_somebody_chose_runs_nothing_in_a_shell() -> None:
    name = "x'; rm -rf ~ #`id`$(id)"
    for command in commands(name).values():
        words = shlex.split(command)
        assert words[:2] == ["airflow", "interlock"]
        assert name in words or "emit" in words
    hostile = event("t;id", source="/$(id)", subject="`id`", tenant="a b", label="$(id)")
    sent = commands(condition=hostile)["Send $(id) by hand"]
    assert shlex.split(sent)[3:7] == ["t;id", "--source=/$(id)", "--subject=`id`", "--extension=tenant=a b"]


def test_what_a_shell_would_show_or_read_otherwise_is_not_advised() -> None:
    assert not [each for each in commands("a\nb").values() if "emit" not in each]
    assert not [each for each in commands("a\x1b[2J").values() if "emit" not in each]
    assert commands("--force") == {}
    assert not [what for what in commands(condition=event("-t", label="t")) if what.startswith("Send")]
