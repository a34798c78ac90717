"""The headers of a request are taken as uvicorn's own protocol takes them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from interlock.receiver.connection import Connection
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADERS = {
    "usual": [(b"Host", b"x"), (b"ce-Type", b"T"), (b"CONTENT-TYPE", b"application/json")],
    "expected": [(b"Expect", b"100-Continue")],
    "something else expected": [(b"expect", b"nothing")],
    "empty": [(b"x", b""), (b"", b"x")],
    "repeated": [(b"a", b"1"), (b"A", b"2")],
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_changes_a_connection_as_it_changes_one_of_uvicorn(name: str) -> None:
    """`Connection.on_header` does what the other does, without calling it: a new uvicorn may do more."""

    def after(method: Any) -> dict[str, Any]:
        connection = SimpleNamespace(_in_headers=True, headers=[], expect_100_continue=False)
        for header in HEADERS[name]:
            method(connection, *header)
        return vars(connection)

    assert after(Connection.on_header) == after(HttpToolsProtocol.on_header)


def test_a_trailer_is_no_header() -> None:
    connection: Any = SimpleNamespace(_in_headers=False, headers=[])
    Connection.on_header(connection, b"ce-id", b"1")
    assert connection.headers == []
