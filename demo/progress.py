"""Prints what is happening, with the seconds since the start, as plain lines, for logs too."""

from __future__ import annotations

import sys
import time


class ProgressPrinter:
    """Prints lines to standard output. `waiting` may be called often: it prints only every few seconds."""

    def __init__(self, every_s: float = 5.0) -> None:
        self._start = time.monotonic()
        self._every_s = every_s
        self._last_line = self._start

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._start

    def say(self, text: str) -> None:
        self._print(f"{self.elapsed_s:6.1f} s  {text}")

    def waiting(self, text: str) -> None:
        if time.monotonic() - self._last_line >= self._every_s:
            self.say(f"  ... {text}")

    def plain(self, text: str = "") -> None:
        self._print(text)

    def _print(self, text: str) -> None:
        sys.stdout.write(text + "\n")  # one write: several stories may print at once
        sys.stdout.flush()
        self._last_line = time.monotonic()


def complain(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
