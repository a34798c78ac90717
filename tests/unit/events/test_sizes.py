"""The size of a record, counted by hand; an integration test compares it with a real broker."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interlock.events.sizes import MAX_EVENT_BYTES, is_small, record_bytes


@pytest.mark.parametrize(
    ("key", "value", "headers", "size"),
    [
        (None, None, [], 61 + 1 + (3 + 1 + 1 + 1)),
        (b"", b"", [], 61 + 1 + (3 + 1 + 1 + 1)),
        (b"k", b"v" * 64, [("h", b"")], 61 + 2 + (3 + 2 + 66 + 1 + 2 + 1)),
        (b"k", b"", [("é", None)], 61 + 1 + (3 + 2 + 1 + 1 + 3 + 1)),
        (None, b"v" * 8192, [], 61 + 3 + (3 + 1 + 3 + 8192 + 1)),
    ],
    ids=["nothing", "empty", "a length of two bytes", "a name beyond ASCII", "lengths of three bytes"],
)
def test_key_value_and_headers_count_with_their_lengths(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]], size: int
) -> None:
    assert record_bytes(key, value, headers) == size


@given(st.integers(0, 12_000), st.integers(0, 300), st.sampled_from("né𝒳"), st.integers(0, MAX_EVENT_BYTES))
def test_a_record_that_counts_as_small_is_within_the_limit(
    headers: int, length: int, character: str, value: int
) -> None:
    record = b"k" * length, b"v" * value, [(character * length, b"h")] * headers
    assert not is_small(*record) or record_bytes(*record) <= MAX_EVENT_BYTES


def test_a_usual_record_counts_as_small() -> None:
    assert is_small(b"k", b"v" * 200_000, [("ce_id", b"1")] * 20)
    assert is_small(None, None, [])
