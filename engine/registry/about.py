"""Chooses the registry's records about subscriptions whose names contain a text, by their bytes."""

from __future__ import annotations

import msgspec

from ..records.codec import UNREADABLE


class _Named(msgspec.Struct, gc=False):
    subscription: str


_named = msgspec.json.Decoder(_Named).decode


class About:
    """Chooses the records to read for questions about subscriptions whose names contain `text`.

    A registry that reads these alone answers about those subscriptions as one that reads all: subscriptions
    do not affect each other, unless two have one incarnation, which is a hash of the name. All other kinds
    of records are chosen.
    """

    def __init__(self, text: str) -> None:
        self._text, self._bytes = text, text.encode("utf-8", "surrogatepass")
        self._incarnations: set[bytes] = set()  # of the records that were chosen

    def is_wanted(self, key: bytes | None, value: bytes | None) -> bool:
        """Whether the record may be about one of them. Call it for each record, in their order."""
        if not key:
            return True
        incarnation, colon, _ = key.partition(b":")
        if not colon or b"/" in key or incarnation in self._incarnations:
            return True
        if value is None:
            return False
        if self._bytes not in value and (b"\\" not in value or not self._is_named(value)):
            return False
        self._incarnations.add(incarnation)
        return True

    def _is_named(self, value: bytes) -> bool:
        """Reads the name, which JSON may write with escapes."""
        try:
            return self._text in _named(value).subscription
        except UNREADABLE:
            return True
