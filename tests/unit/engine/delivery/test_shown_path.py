"""A sink's path is shown with its query, but for what may be a secret."""

from __future__ import annotations

import pytest
from interlock.engine.delivery.shown_path import shown_path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/orders",
        "/orders?region=eu&dry_run=1",
        "/orders?verbose",
        "?from=2026-11-20&at=10:30",
        "/a/" + "b" * 40,  # only queries are looked at
    ],
)
def test_a_path_without_secrets_is_shown_as_it_is(path: str) -> None:
    assert shown_path(path) == path


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/a?token=x", "/a?token=***"),
        ("/a?region=eu&API_Key=x&n=1", "/a?region=eu&API_Key=***&n=1"),
        ("/hook?T0000000000000000", "/hook?***"),
        ("/a?x=0123456789abcdef", "/a?x=***"),
        ("/a?to=u:p@h", "/a?to=***"),
        ("/a?to=u%3Ap%40h", "/a?to=***"),
        ("/a?x=1=2", "/a?x=***"),
        ("/a?x=a?token=b", "/a?x=***"),
        ("/a?password=", "/a?password=***"),
    ],
)
def test_a_value_that_may_be_a_secret_is_hidden(path: str, shown: str) -> None:
    assert shown_path(path) == shown
