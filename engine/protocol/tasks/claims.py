"""The offsets that refused records claim, and their true ones. The offset metadata keep the latest.

A look-back needs them: when it asks where its `since` begins, brokers may answer with a claimed offset.
"""

from __future__ import annotations

from typing import Any, Final

from ...records import OffsetMetadata

MOST_CLAIMS: Final = 6  # as many as the offset metadata have room for


class Claims:
    """{claimed offset: true offset} of one source partition. `rollback` drops what is not committed."""

    def __init__(self, metadata: OffsetMetadata) -> None:
        self._true = self._committed = dict((metadata.claims or [])[-MOST_CLAIMS:])

    def add(self, claimed: int, true: int) -> None:
        """Note a refused record. The oldest claims beyond MOST_CLAIMS are forgotten."""
        others = [each for each in self._true.items() if each[0] != claimed]
        self._true = dict([*others, (claimed, true)][-MOST_CLAIMS:])

    def true_offset(self, offset: int) -> int:
        """The true offset of the record that claims this offset, if known; otherwise the offset itself."""
        return self._true.get(offset, offset)

    def metadata(self) -> dict[str, Any]:
        """Fields of the offset metadata, if there are any claims."""
        return {"claims": list(self._true.items())} if self._true else {}

    def committed(self) -> None:
        self._committed = self._true

    def rollback(self) -> None:
        self._true = self._committed
