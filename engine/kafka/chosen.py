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
        return super()._add([message for message in messages if self._is_returned(message)], taken)

    def _is_returned(self, message: Message) -> bool:
        if message.error() is not None:
            return True
        try:
            key, value = message.key(), message.value()
        except Exception:  # noqa: BLE001  # its record says what cannot be read
            return True
        return self._is_wanted(key, value)
