"""Limits the memory that a receiver's requests may take."""

from __future__ import annotations


class Memory:
    """Counts the bytes of requests. Unauthenticated senders may take only `most_unproven` of `most`.

    Anybody can begin a request whose sender only a signature of the body authenticates. Such requests must
    not keep out others.
    """

    def __init__(self, most: int, most_unproven: int) -> None:
        self._most, self._most_unproven = most, most_unproven
        self.held = self.unproven = 0

    def take(self, size: int, unproven: int) -> bool:
        """Counts a request if there is room for it.

        unproven: its size if its sender is not authenticated yet, else 0.
        """
        held, waiting = self.held + size, self.unproven + unproven
        if held > self._most or waiting > self._most_unproven:
            return False
        self.held, self.unproven = held, waiting
        return True

    def give_back(self, size: int, unproven: int) -> None:
        self.held -= size
        self.unproven -= unproven
