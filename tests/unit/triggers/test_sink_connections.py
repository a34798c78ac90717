"""Airflow's http connections as targets of deliveries."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from airflow.exceptions import AirflowNotFoundException
from airflow.models.connection import Connection as StoredConnection
from airflow.sdk import BaseHook, Connection
from interlock.engine.sending.target import Basic, Bearer, ClientCredentials, SinkTarget, TargetError, Tls
from interlock.triggers.sink_connections import target_in_command, target_in_triggerer, target_of

CANARY = "canary-4711"
TOKENS = "https://login.example.com/token"


def connection(extra: Any = None, **fields: Any) -> Connection:
    given = {"conn_type": "http", "host": "api.example.com", **fields}
    text = extra if isinstance(extra, str) else None if extra is None else json.dumps(extra)
    return Connection(conn_id="crm", extra=text, **given)


@pytest.mark.parametrize(
    ("fields", "url"),
    [
        ({}, "http://api.example.com"),
        ({"schema": "https"}, "https://api.example.com"),
        ({"conn_type": "https"}, "https://api.example.com"),
        ({"conn_type": "https", "schema": "http"}, "http://api.example.com"),
        ({"conn_type": "generic", "schema": "https"}, "https://api.example.com"),
        ({"schema": "https", "port": 8443}, "https://api.example.com:8443"),
        ({"host": "https://api.example.com/v1"}, "https://api.example.com/v1"),
        ({"host": "https://api.example.com/v1", "port": 8443}, "https://api.example.com:8443/v1"),
        ({"host": "https://api.example.com:1/v1", "port": 8443}, "https://api.example.com:1/v1"),
        ({"host": "https://api.example.com", "schema": "http"}, "https://api.example.com"),
        ({"host": "::1", "port": 80}, "http://[::1]:80"),
        ({"host": "[::1]", "port": 80}, "http://[::1]:80"),
        ({"host": " api.example.com "}, "http://api.example.com"),
    ],
)
def test_the_address_is_that_of_airflows_http_hook(fields: dict[str, Any], url: str) -> None:
    assert target_of(connection(**fields)) == SinkTarget(url=url)


@pytest.mark.parametrize(
    ("fields", "extra", "auth"),
    [
        ({"login": "u", "password": CANARY}, None, Basic("u", CANARY)),
        ({"password": CANARY}, None, Basic("", CANARY)),
        ({}, {"bearer_token": CANARY}, Bearer(CANARY)),
        (
            {"login": "id", "password": CANARY},
            {"token_url": TOKENS},
            ClientCredentials(token_url=TOKENS, client_id="id", client_secret=CANARY),
        ),
        (
            {"login": "id", "password": CANARY},
            {"token_url": TOKENS, "scope": "a b", "audience": "c", "client_auth": "body"},
            ClientCredentials(
                token_url=TOKENS,
                client_id="id",
                client_secret=CANARY,
                scope="a b",
                audience="c",
                in_body=True,
            ),
        ),
    ],
    ids=["basic", "without login", "bearer", "client credentials", "all of them"],
)
def test_credentials_are_taken_from_login_password_and_extra(
    fields: dict[str, Any], extra: Any, auth: Any
) -> None:
    found = target_of(connection(extra, **fields))
    assert found.auth == auth
    assert CANARY not in repr(found)


def test_headers_and_tls_are_taken_from_the_extra_and_members_of_airflows_operators_are_ignored() -> None:
    extra = {"headers": {"X-Api-Key": CANARY}, "verify": "/ca.pem", "cert": ["/c.pem", "/k.pem"]}
    found = target_of(connection({**extra, "timeout": 5, "allow_redirects": True}))
    assert found.headers == {"X-Api-Key": CANARY}
    assert found.tls == Tls(ca_file="/ca.pem", certificate_file="/c.pem", key_file="/k.pem")
    assert target_of(connection({"verify": True, "cert": "/c.pem"})).tls == Tls(certificate_file="/c.pem")
    assert target_of(connection({"cert": ["/c.pem"]})).tls == Tls(certificate_file="/c.pem")


@pytest.mark.parametrize(
    ("fields", "extra", "expected_text"),
    [
        ({"conn_type": "kafka"}, None, "it has type 'kafka'; give one of type 'http'"),
        ({"host": None}, None, "it has no host"),
        ({"host": "  "}, None, "it has no host"),
        ({"schema": "ftp"}, None, "its schema is 'ftp'; give 'http' or 'https'"),
        ({"host": "ftp://a"}, None, "not a usable URL"),
        ({"host": "a b"}, None, "its host has a space"),
        ({"host": f"https://u:{CANARY}@a"}, None, "has credentials: put them into login and password"),
        ({}, f'["{CANARY}"]', "its extra is not a JSON object"),
        ({}, f"{{{CANARY}", "its extra is not a JSON object"),
        ({}, {"Authorization": CANARY}, 'its extra has Authorization, .*Put headers into a member "headers"'),
        ({}, {"proxies": {"https": CANARY}}, "its extra has proxies, which deliveries do not know"),
        ({}, {"headers": [CANARY]}, "headers in its extra is not an object of names and texts"),
        ({}, {"headers": {"X": 7}}, "headers in its extra is not an object of names and texts"),
        ({}, {"headers": {"Host": CANARY}}, "header 'Host' cannot be set"),
        ({}, {"verify": False}, "verify in its extra is neither true nor .*always verify certificates"),
        ({}, {"verify": ""}, "verify in its extra is neither"),
        ({}, {"cert": ["a", "b", "c"]}, "cert in its extra is neither"),
        ({}, {"cert": {"a": CANARY}}, "cert in its extra is neither"),
        ({}, {"bearer_token": [CANARY]}, "bearer_token in its extra is not a text"),
        (
            {"login": "u", "password": CANARY},
            {"bearer_token": CANARY},
            "a bearer_token and other credentials",
        ),
        ({}, {"bearer_token": f"{CANARY}\n"}, "has a line break"),
        ({}, {"token_url": TOKENS}, "give the client's id as login and its secret as password"),
        ({"login": "u", "password": CANARY}, {"token_url": "http://a/t"}, "needs https"),
        (
            {"login": "u", "password": CANARY},
            {"token_url": TOKENS, "client_auth": "form"},
            "client_auth in its",
        ),
        ({}, {"scope": "a"}, "its extra has scope without token_url"),
    ],
)
def test_what_cannot_be_used_is_refused_by_a_sentence_without_secrets(
    fields: dict[str, Any], extra: Any, expected_text: str
) -> None:
    with pytest.raises(TargetError, match=f"^Connection 'crm': .*{expected_text}") as raised:
        target_of(connection(extra, **fields))
    assert CANARY not in str(raised.value)
    assert raised.value.__suppress_context__


def test_a_command_reads_airflows_secrets_and_says_that_a_connection_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_CRM", json.dumps({"conn_type": "http", "host": "a"}))
    assert target_in_command("crm").url == "http://a"

    def none(conn_id: str) -> StoredConnection:
        raise AirflowNotFoundException(f"The conn_id `{conn_id}` isn't defined")

    monkeypatch.setattr(StoredConnection, "get_connection_from_secrets", none)
    with pytest.raises(TargetError, match="can read no connection 'crm': create it, with type http"):
        target_in_command("crm")

    def denied(conn_id: str) -> StoredConnection:
        raise PermissionError(f"{conn_id} is of another team")

    monkeypatch.setattr(StoredConnection, "get_connection_from_secrets", denied)
    with pytest.raises(TargetError, match="may not read connection 'crm'"):
        target_in_command("crm")


def in_a_triggerer(answer: Connection | Exception, monkeypatch: pytest.MonkeyPatch) -> SinkTarget:
    """What a thread of a triggerer looks up, while the event loop runs."""

    async def get(conn_id: str) -> Connection:
        assert (conn_id, threading.current_thread()) == ("crm", threading.main_thread())
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def run() -> SinkTarget:
        return await asyncio.to_thread(target_in_triggerer, "crm", asyncio.get_running_loop())

    monkeypatch.setattr(BaseHook, "aget_connection", get)
    return asyncio.run(run())


def test_a_triggerer_reads_a_connection_in_its_event_loop_for_another_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert in_a_triggerer(connection(), monkeypatch).url == "http://api.example.com"
    with pytest.raises(TargetError, match="can read no connection 'crm'"):
        in_a_triggerer(AirflowNotFoundException("none"), monkeypatch)
    with pytest.raises(TargetError, match="may not read connection 'crm'"):
        in_a_triggerer(PermissionError("of another team"), monkeypatch)
    with pytest.raises(TimeoutError, match="the supervisor is gone"):  # the earlier target stays in use
        in_a_triggerer(TimeoutError("the supervisor is gone"), monkeypatch)
