"""Where `airflow interlock receiver` finds the declarations of webhooks and their secrets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from airflow.models.connection import Connection
from airflow.models.variable import Variable
from interlock.engine.errors import ConfigError
from interlock.plugin.commands.receiver import _credentials_document, _webhooks
from interlock.receiver.server import ReceiverOptions

DECLARED = '[[webhook]]\nname = "github"\npreset = "github"\nsecret = "github_webhook"\n'


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = json.dumps({"conn_type": "generic", "password": "a canary"})
    monkeypatch.setenv("AIRFLOW_CONN_GITHUB_WEBHOOK", connection)


@pytest.mark.usefixtures("secret")
def test_declarations_are_in_a_file_or_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "webhooks.toml").write_text(DECLARED)
    monkeypatch.setenv("AIRFLOW_VAR_HOOKS", DECLARED)
    for where in (str(tmp_path / "webhooks.toml"), "variable:hooks"):
        assert [each.path for each in _webhooks(ReceiverOptions(webhooks=where))] == ["/webhooks/github"]
    assert _webhooks(ReceiverOptions()) == []


def test_a_file_that_is_missing_or_no_text_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    for name in ("missing.toml", "bytes.toml", "."):
        with pytest.raises(ConfigError, match=str(tmp_path)):
            _webhooks(ReceiverOptions(webhooks=str(tmp_path / name)))


def test_a_missing_variable_or_connection_is_refused_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_HOOKS", DECLARED)
    with pytest.raises(ConfigError, match=r"'github'.*no Airflow connection 'github_webhook'"):
        _webhooks(ReceiverOptions(webhooks="variable:hooks"))
    with pytest.raises(ConfigError, match="no Airflow Variable 'nothing'"):
        _webhooks(ReceiverOptions(webhooks="variable:nothing"))


def test_what_a_secrets_backend_refuses_is_an_error_that_names_it_and_the_option(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The command ended in a traceback."""

    def refuse(name: str) -> None:
        raise PermissionError("not this machine")

    monkeypatch.setenv("AIRFLOW_VAR_HOOKS", DECLARED)
    monkeypatch.setattr(Connection, "get_connection_from_secrets", refuse)
    reason = r"not this machine\. Allow it in the secrets backend\."
    with pytest.raises(ConfigError, match=f"connection 'senders', which --credentials names: {reason}"):
        _credentials_document(ReceiverOptions(credentials="conn:senders"))
    with pytest.raises(ConfigError, match=f"variable:hooks, webhook 'github': .*'github_webhook': {reason}"):
        _webhooks(ReceiverOptions(webhooks="variable:hooks"))
    monkeypatch.setattr(Variable, "get_variable_from_secrets", refuse)
    with pytest.raises(ConfigError, match=f"Variable 'hooks', which --webhooks names: {reason}"):
        _webhooks(ReceiverOptions(webhooks="variable:hooks"))
