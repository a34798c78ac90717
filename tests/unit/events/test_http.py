"""Errors of the HTTP binding beyond what its specification asks: tests/conformance/test_http_binding.py."""

from __future__ import annotations

import pytest
from interlock.events.errors import EventError
from interlock.events.http import decode


def test_an_error_says_so_if_a_value_is_wrong_because_it_was_decoded() -> None:
    """cloudevents/sdk-go#1331, sdk-java#748: they send a source such as /a%20b as it is."""
    headers = [(b"ce-specversion", b"1.0"), (b"ce-id", b"1"), (b"ce-type", b"t"), (b"ce-source", b"/a%20b")]
    with pytest.raises(EventError) as refused:
        decode([*headers, (b"ce-subject", b"50%25")], b"")
    assert [each.partition(":")[0] for each in refused.value.problems] == [
        "attribute source is '/a b'",
        "header ce-source was percent-decoded first",
    ]
