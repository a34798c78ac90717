"""Airflow connections of type http, as targets of deliveries (their fields: docs/use/deliver.md)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from airflow.exceptions import AirflowNotFoundException

from ..engine.sending.target import Auth, Basic, Bearer, ClientCredentials, SinkTarget, TargetError, Tls

if TYPE_CHECKING:
    from airflow.models.connection import Connection as StoredConnection
    from airflow.sdk import Connection

LOOKUP_S: Final = 20.0
# An Airflow without its HTTP provider stores a connection that is added with type http as generic.
_TYPES: Final = ("", "http", "https", "generic")
# Members of an extra that Airflow's HTTP operators read. Deliveries ignore them.
_OF_AIRFLOW: Final = frozenset(
    {
        "allow_redirects", "check_response", "max_redirects", "stream", "tcp_keep_alive",
        "tcp_keep_alive_count", "tcp_keep_alive_idle", "tcp_keep_alive_interval", "timeout",
    }
)  # fmt: skip
_KNOWN: Final = frozenset(
    {"audience", "bearer_token", "cert", "client_auth", "headers", "scope", "token_url", "verify"}
)


def target_in_command(conn_id: str) -> SinkTarget:
    """The target of a connection, for processes with access to Airflow's database or secrets backend.

    Blocks. Raises TargetError if there is no such connection, or it cannot be used.
    """
    from airflow.models.connection import Connection

    try:
        found = Connection.get_connection_from_secrets(conn_id)
    except AirflowNotFoundException:
        raise _missing(conn_id) from None
    except PermissionError:
        raise _denied(conn_id) from None
    return target_of(found)


def target_in_triggerer(conn_id: str, loop: asyncio.AbstractEventLoop) -> SinkTarget:
    """As `target_in_command`, for a thread of a triggerer beside its event loop.

    loop: the event loop that runs the triggers, which reads the connection. Raises TimeoutError after
    LOOKUP_S.
    """
    from airflow.sdk import BaseHook

    reading = asyncio.run_coroutine_threadsafe(BaseHook.aget_connection(conn_id), loop)
    try:
        return target_of(reading.result(LOOKUP_S))
    except AirflowNotFoundException:
        raise _missing(conn_id) from None
    except PermissionError:
        raise _denied(conn_id) from None
    finally:
        reading.cancel()


def target_of(connection: Connection | StoredConnection) -> SinkTarget:
    """The target of a connection. Raises TargetError, whose text names the connection and has no secret."""
    try:
        return _target_of(connection)
    except TargetError as e:
        raise TargetError(f"Connection {connection.conn_id!r}: {e}") from None


def _target_of(connection: Connection | StoredConnection) -> SinkTarget:
    if (connection.conn_type or "") not in _TYPES:
        raise TargetError(f"it has type {connection.conn_type!r}; give one of type 'http'.")
    extra = _extra(connection)
    unknown = sorted(str(name) for name in extra.keys() - _KNOWN - _OF_AIRFLOW)
    if unknown:
        raise TargetError(
            f"its extra has {', '.join(unknown)}, which deliveries do not know. Put headers into a member "
            f'"headers"; the other members are {", ".join(sorted(_KNOWN - {"headers"}))}.'
        )
    return SinkTarget(
        url=_url(connection),
        auth=_auth(connection, extra),
        headers=_headers(extra),
        tls=_tls(extra),
    )


def _extra(connection: Connection | StoredConnection) -> Mapping[str, Any]:
    """The members of the extra. Raises TargetError if it is not a JSON object.

    `extra_dejson` alone would be empty for such an extra, and drop its credentials.
    """
    try:
        found = json.loads(connection.extra or "{}")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise TargetError("its extra is not a JSON object.") from None
    return connection.extra_dejson  # which also masks secrets in logs


def _url(connection: Connection | StoredConnection) -> str:
    """As Airflow's HttpHook: the host may be a whole URL; else schema (default http), host and port."""
    host = (connection.host or "").strip()
    if not host or len(host.split()) > 1:
        raise TargetError("it has no host." if not host else "its host has a space.")
    if "://" not in host:
        scheme = connection.schema or ("https" if connection.conn_type == "https" else "http")
        if scheme not in ("http", "https"):
            raise TargetError(f"its schema is {scheme[:20]!r}; give 'http' or 'https'.")
        if host.count(":") > 1 and not host.startswith("["):
            host = f"[{host}]"
        host = f"{scheme}://{host}"
    if connection.port is None:
        return host
    try:
        parts = urlsplit(host)
        if parts.port is not None:
            return host
    except ValueError:
        return host  # `SinkTarget` says what is wrong
    return parts._replace(netloc=f"{parts.netloc}:{connection.port}").geturl()


def _auth(connection: Connection | StoredConnection, extra: Mapping[str, Any]) -> Auth | None:
    login, password = connection.login or "", connection.password or ""
    token, token_url = _text(extra, "bearer_token"), _text(extra, "token_url")
    for name in ("scope", "audience", "client_auth"):
        if name in extra and not token_url:
            raise TargetError(f"its extra has {name} without token_url.")
    if token and (login or password or token_url):
        raise TargetError("it has a bearer_token and other credentials: give one of them.")
    if token:
        return Bearer(token)
    if not token_url:
        return Basic(login, password) if login or password else None
    if not login or not password:
        raise TargetError(
            "its extra has token_url: give the client's id as login and its secret as password."
        )
    client_auth = _text(extra, "client_auth") or "header"
    if client_auth not in ("header", "body"):
        raise TargetError("client_auth in its extra is neither 'header' nor 'body'.")
    return ClientCredentials(
        token_url=token_url,
        client_id=login,
        client_secret=password,
        scope=_text(extra, "scope"),
        audience=_text(extra, "audience"),
        in_body=client_auth == "body",
    )


def _headers(extra: Mapping[str, Any]) -> dict[str, str]:
    headers = extra.get("headers") or {}
    if not isinstance(headers, Mapping) or not all(
        isinstance(name, str) and isinstance(value, str) for name, value in headers.items()
    ):
        raise TargetError("headers in its extra is not an object of names and texts.")
    return dict(headers)


def _tls(extra: Mapping[str, Any]) -> Tls:
    """From HttpHook's members `verify` and `cert`."""
    verify, cert = extra.get("verify", True), extra.get("cert")
    if verify is not True and (not isinstance(verify, str) or not verify):
        raise TargetError(
            "verify in its extra is neither true nor the path of a file with authorities. Deliveries always "
            "verify certificates."
        )
    files = [cert] if isinstance(cert, str) else cert or []
    if (
        not isinstance(files, (list, tuple))
        or len(files) > 2
        or not all(isinstance(file, str) and file for file in files)
    ):
        raise TargetError("cert in its extra is neither a path nor [certificate, key].")
    certificate, key = (*files, "", "")[:2]
    return Tls(ca_file="" if verify is True else verify, certificate_file=certificate, key_file=key)


def _text(extra: Mapping[str, Any], name: str) -> str:
    found = extra.get(name, "")
    if not isinstance(found, str):
        raise TargetError(f"{name} in its extra is not a text.")
    return found


def _denied(conn_id: str) -> TargetError:
    """The error if a secrets backend refuses the connection, a PermissionError of Airflow.

    After it, deliveries do not continue with what was read earlier.
    """
    return TargetError(f"This process may not read connection {conn_id!r}.")


def _missing(conn_id: str) -> TargetError:
    """The error if there is no such connection.

    Airflow also reports a connection as missing if its database or a secrets backend does not answer.
    """
    return TargetError(f"This process can read no connection {conn_id!r}: create it, with type http.")
