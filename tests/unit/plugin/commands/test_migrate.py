"""`airflow interlock migrate knative`: what it prints of Triggers, and when it fails."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.cli.cli_parser import get_parser

TRIGGER = """
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: orders, labels: {team: a}}
spec:
  broker: default
  filter: {attributes: {type: com.shop.paid, tenant: ""}}
  subscriber: {uri: "http://orders.shop.svc/in"}
  delivery: {retry: 3, backoffPolicy: exponential, backoffDelay: PT1S}
"""
REFUSED = TRIGGER.replace("orders", "wrong").replace("retry: 3", "retry: -3")
CONDITION = 'event(type="com.shop.paid", filters=[Sql("EXISTS tenant")])'

Run = Callable[..., tuple[str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    def migrate(text: str, *arguments: str) -> tuple[str, str]:
        file = tmp_path / "triggers.yaml"
        file.write_text(text)
        args = get_parser().parse_args(["interlock", "migrate", "knative", str(file), *arguments])
        args.func(args)
        return capsys.readouterr()

    return migrate


def test_json_has_the_condition_the_sink_the_source_and_what_is_left_out(run: Run) -> None:
    [found] = json.loads(run(TRIGGER, "--output", "json")[0])
    made = found["subscription"]
    assert (made["name"], made["condition"], made["host"]) == ("orders", CONDITION, "http://orders.shop.svc")
    assert made["retry"] == {"delay_s": 1.0, "jitter": 0.0, "tries": 4, "least_tries": 4}
    assert made["source"].startswith("orders = deliver_dag(")
    assert made["condition_json"]["v"] == 1
    assert [each["field"] for each in found["left_out"]] == ["metadata.labels"]
    assert found["refused"] == []


def test_a_table_has_the_condition_each_field_with_its_reason_the_connection_and_the_source(run: Run) -> None:
    out = run(TRIGGER)[0]
    assert CONDITION in out
    assert re.search(r"metadata\.labels +\| left out +\| a DAG has tags", out)
    assert "airflow connections add orders --conn-type http --conn-host http://orders.shop.svc" in out
    assert "orders = deliver_dag(" in out


def test_source_prints_a_dag_file_and_says_the_rest_on_stderr(run: Run) -> None:
    out, err = run(TRIGGER, "--source")
    compile(out, "dag_file", "exec")
    assert "Trigger orders, metadata.labels left out: a DAG has tags" in err


def test_a_refused_trigger_ends_the_command_with_its_field_and_the_others_are_printed(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match=r"Refused: Trigger wrong\. Correct the fields"):
        run(f"{REFUSED}\n---{TRIGGER}", "--output", "json")
    refused, made = json.loads(capsys.readouterr().out)
    assert refused["subscription"] is None
    assert refused["refused"] == [{"field": "spec.delivery.retry", "text": "-3 is not in 0 to 2147483647"}]
    assert made["subscription"]["name"] == "orders"


@pytest.mark.parametrize("arguments", [(), ("--source",), ("--output", "json")])
def test_a_trigger_of_another_version_ends_the_command_and_is_named(
    run: Run, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    """knative/docs#2816: old files have v1beta1. With --source such a Trigger was lost without a word."""
    old = TRIGGER.replace("/v1", "/v1beta1").replace("orders", "old")
    with pytest.raises(SystemExit, match=r"Refused: Trigger old\."):
        run(f"{old}\n---{TRIGGER}", *arguments)
    out, err = capsys.readouterr()
    assert "only eventing.knative.dev/v1 is read" in (err if arguments == ("--source",) else out)
    assert "orders" in out


def test_source_names_what_becomes_no_subscription_on_stderr(run: Run) -> None:
    channel = "apiVersion: messaging.knative.dev/v1\nkind: Channel\nmetadata: {name: c}"
    assert "Channel c becomes no subscription: " in run(f"{channel}\n---{TRIGGER}", "--source")[1]


@pytest.mark.parametrize("text", ["kind: [", "\x00", "a: 1"])
def test_a_file_that_holds_no_resources_is_an_error(run: Run, text: str) -> None:
    with pytest.raises(SystemExit, match="airflow interlock migrate knative: "):
        run(text)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    args = get_parser().parse_args(["interlock", "migrate", "knative", str(tmp_path / "none.yaml")])
    with pytest.raises(SystemExit, match="cannot be read"):
        args.func(args)


def test_a_dash_reads_stdin(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(TRIGGER))
    args: Any = get_parser().parse_args(["interlock", "migrate", "knative", "-", "--output", "json"])
    args.func(args)
    assert json.loads(capsys.readouterr().out)[0]["resource"] == "Trigger orders"
