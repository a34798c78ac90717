"""How the commands check their arguments before they connect."""

from __future__ import annotations

import io
import json
import re
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from airflow.cli.cli_parser import get_parser
from interlock import event
from interlock.plugin.commands import emit, get_cli_commands, tail
from interlock.plugin.provider import get_provider_info
from interlock.triggers.settings import InterlockSettings, page_connections


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (None, None),
        ('{"rows": 7}', b'{"rows": 7}'),
        ('"done"', b'"done"'),
        ("null", b"null"),  # JSON's null is data
        (" []\n", b"[]"),
        ('{"price": 1.10, "id": 0.12345678901234567890}',) * 2,
    ],
)
def test_data_are_json_as_it_is_written(text: str | None, data: Any) -> None:
    """The kind of kurrent-io/KurrentDB#1541: numbers lost their last digits."""
    assert emit._data(text) == (data.encode() if isinstance(data, str) else data)


def test_a_member_that_is_in_the_data_twice_is_named() -> None:
    """The first one was lost."""
    with pytest.raises(SystemExit, match="--data: the JSON has a member twice: 'day'"):
        emit._data('{"rows": [{"day": 1, "day": 2}]}')


def test_a_dash_reads_data_from_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO('{"rows": 7}\n'))
    assert emit._data("-") == b'{"rows": 7}'


@pytest.mark.parametrize("text", ["done", "", "{", "[" * 100_000, '{"a": NaN}'])
def test_invalid_json_is_refused_with_a_hint_how_to_write_text(text: str) -> None:
    with pytest.raises(SystemExit, match="--data is not valid JSON"):
        emit._data(text)


def test_data_from_stdin_that_are_not_utf8_are_refused_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'"caf\xe9"'), "utf-8"))
    with pytest.raises(SystemExit, match="--data is not valid JSON"):
        emit._data("-")


@pytest.mark.parametrize("seconds", ["nan", "inf", "-inf", "0", "-1", "2e6001", "2000001"])
def test_emit_refuses_a_timeout_that_no_client_can_wait_for(seconds: str) -> None:
    args = get_parser().parse_args(["interlock", "emit", "t", f"--timeout={seconds}"])
    with pytest.raises(SystemExit, match="--timeout: give a number of seconds above 0"):
        args.func(args)


@pytest.mark.parametrize("command", ["engine", "deliver"])
def test_an_address_for_probes_without_a_port_is_refused(command: str) -> None:
    """It was accepted, and a supervisor that asked there got no answer."""
    args = get_parser().parse_args(["interlock", command, "--probe-host", "0.0.0.0"])
    with pytest.raises(SystemExit, match="--probe-host needs --probe-port"):
        args.func(args)


def test_extensions_are_pairs_and_cannot_be_other_attributes() -> None:
    assert emit._extensions(["trace=a=b", "team="]) == {"trace": "a=b", "team": ""}
    with pytest.raises(SystemExit, match="write NAME=TEXT"):
        emit._extensions(["trace"])
    with pytest.raises(SystemExit, match="is not an extension attribute"):
        emit._extensions(["id=7"])


@pytest.mark.parametrize(
    ("text", "matcher"),
    [
        (None, None),
        ("com.shop.done", event("com.shop.done")),
        ('event("com.shop.done", by="data.date")', event("com.shop.done", by="data.date")),
    ],
)
def test_tail_takes_a_type_or_a_matcher(text: str | None, matcher: Any) -> None:
    assert tail._matcher(text) == matcher


def test_tail_refuses_a_condition() -> None:
    with pytest.raises(SystemExit, match="give one event"):
        tail._matcher('event("a") & event("b")')


@pytest.mark.parametrize(
    "words",
    [
        ["doctor", "--role", "wait", "--role", "emit"],
        ["emit", "com.shop.done", "--key", "eu", "--extension", "a=b"],
        ["explain", "name", "--key", "k"],
        ["subscriptions", "cancel", "name", "--yes"],
        ["tail", "com.shop.done", "--limit", "1"],
        ["topics", "create", "--dry-run"],
        ["topics", "resume", "orders", "3", "--from", "end"],
        ["topics", "resume", "--all", "--from", "start", "--yes"],
    ],
)
def test_airflows_parser_accepts_the_commands_with_its_output_formats(words: list[str]) -> None:
    for output in ("table", "json", "yaml", "plain"):
        args: Namespace = get_parser().parse_args(["interlock", *words, "--output", output])
        assert (args.output, args.conn_id) == (output, "kafka_default")


def test_a_dry_run_prints_topics_and_acls_as_one_object_without_a_broker(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    extra = {"bootstrap.servers": "192.0.2.1:1", "sasl.password": "canary"}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra}))
    words = ["interlock", "topics", "create", "--dry-run", "--partitions", "3", "--bus", "b"]
    for output in ("table", "json"):
        args = get_parser().parse_args([*words, "--output", output])
        args.func(args)
    out, explained = capsys.readouterr()
    whole = json.loads(out[out.index("{") :])
    assert {topic["topic"]: topic["partitions"] for topic in whole["topics"]}["b-trigger"] == 3
    roles = {acl["role"] for acl in whole["acls"]}
    assert roles == {"emit", "wait", "engine", "deliver"}
    assert all(f"{role} " in explained for role in roles)
    assert "canary" not in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--partitions", "0"), "A bus cannot have 0 partitions: use 1 to 1000."),
        (("--partitions", "-1"), "A bus cannot have -1 partitions: use 1 to 1000."),
        (("--partitions", "0", "--dry-run"), "A bus cannot have 0 partitions: use 1 to 1000."),
        (("--replication-factor", "0"), "A topic cannot have 0 replicas: use 1 to 1000, or -1 for"),
        (("--replication-factor", "-2"), "A topic cannot have -2 replicas: use 1 to 1000, or -1 for"),
    ],
)
def test_impossible_numbers_are_refused_without_a_broker(
    words: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": "192.0.2.1:1"}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(connection))

    def connected(config: object) -> None:
        raise AssertionError("it connected to the cluster")

    monkeypatch.setattr("interlock.engine.kafka.topics.admin_client", connected)
    args = get_parser().parse_args(["interlock", "topics", "create", *words])
    with pytest.raises(SystemExit, match=re.escape(message)):
        args.func(args)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("orders",),
        ("orders", "--all"),
        ("orders", "--topic", "orders"),
        ("orders", "0", "--all"),
        ("orders", "0", "--topic", "orders"),
    ],
)
def test_resume_needs_one_partition_or_an_explicit_choice_of_several(words: tuple[str, ...]) -> None:
    args = get_parser().parse_args(["interlock", "topics", "resume", *words, "--from", "start"])
    with pytest.raises(SystemExit, match="give TOPIC and PARTITION, or --all, or --topic NAME"):
        args.func(args)


def test_no_help_has_a_word_in_brackets_which_airflow_would_drop_as_rich_markup() -> None:
    [group] = get_cli_commands()
    actions = [each for command in group.subcommands for each in getattr(command, "subcommands", (command,))]
    texts = [str(arg.kwargs.get("help")) for each in actions for arg in each.args]
    assert [text for text in texts if re.search(r"\[[a-z#/@]", text)] == []


def test_declared_defaults_are_the_real_defaults() -> None:
    declared = get_provider_info()["config"]["interlock"]["options"]
    default = InterlockSettings()
    assert declared["bus"]["default"] == default.bus
    assert declared["deployment"]["default"] == default.deployment
    assert float(declared["lookback_hours"]["default"]) * 3600 == default.lookback.total_seconds()
    assert tuple(declared["page_connections"]["default"].split(",")) == page_connections()
    assert all(option["description"] and option["version_added"] for option in declared.values())


def test_each_command_and_each_setting_is_documented() -> None:
    docs = Path(__file__).parents[4] / "docs"
    commands, operating = ((docs / page).read_text() for page in ("use/commands.md", "operate/operating.md"))
    [group] = get_cli_commands()
    for command in group.subcommands:
        assert f"`{command.name}" in commands, command.name
        for each in getattr(command, "subcommands", ()):
            assert f"`{each.name}`" in commands or f"`{command.name} {each.name}" in commands, each.name
    settings = get_provider_info()["config"]["interlock"]["options"]
    assert [name for name in settings if f"`{name}`" not in operating] == []
