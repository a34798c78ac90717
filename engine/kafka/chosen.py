"""A reader that leaves out records by their keys and values, before it unpacks them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..bus import End, Record
from ..config import BusConfig
from .clients import ClientErrors
from .reader import KafkaReader

if TYPE_CHECKING:
    from confluent_kafka import Message


class ChosenReader(KafkaReader):
    """A `KafkaReader` that returns the records that `is_wanted(key, value)` chooses, and each end.

    A record whose key or value cannot be read is returned.
    """

    def __init__(
        self,
        config: BusConfig,
        errors: ClientErrors,
        is_wanted: Callable[[bytes | None, bytes | None], bool],
    ) -> None:
        super().__init__(config, errors)
        self._is_wanted = is_wanted
        self._has_arrived = False

    def take(self, most: int, timeout_s: float) -> list[Record | End]:
        """See `bus.Reader`. Returns nothing only if nothing has arrived."""
        while True:
            self._has_arrived = False
            taken = super().take(most, timeout_s)
            if taken or not self._has_arrived:
                return taken

    def _add(self, messages: list[Message], taken: list[Record | End]) -> int:
        self._has_arrived = True
        is_wanted, chosen = self._is_wanted, []
        for message in messages:  # most of 100,000 are left out, so there is no call for each
            try:
                if message.error() is None and not is_wanted(message.key(), message.value()):
                    continue
            except Exception:  # noqa: BLE001, S110  # its record says what cannot be read
                pass
            chosen.append(message)
        return super()._add(chosen, taken)
