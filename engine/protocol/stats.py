"""The counters of an engine, which its runtime publishes."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

# Counters of work inside transactions: after an abort the work is done, and counted, again.
_OF_TRANSACTIONS: Final = (
    "consumed",
    "filtered",
    "matched",
    "stepped",
    "fired",
    "expired",
    "incomplete",
    "dead_lettered",
    "keys_dropped",
    "ticks",
    "cuts",
    "scanned",
)
_of_transactions: Final = attrgetter(*_OF_TRANSACTIONS)


@dataclass
class Stats:
    """Counters since the engine began, and samples since they were last taken.

    Each counter is the metric of its name, which docs/operate/operating.md "Watching" explains.
    `transaction_s`: seconds of each commit. `latency_s`: seconds from the append of a firing's last event to
    the decision.
    """

    consumed: int = 0
    filtered: int = 0
    matched: int = 0
    stepped: int = 0
    fired: int = 0
    expired: int = 0
    incomplete: int = 0
    dead_lettered: int = 0
    tried_alone: int = 0
    filter_errors: int = 0
    keys_dropped: int = 0
    transactions: int = 0
    aborted: int = 0
    ticks: int = 0
    cuts: int = 0
    fenced: int = 0
    scanned: int = 0
    look_back_lost: int = 0
    recovered_records: int = 0
    recovery_s: float = 0.0
    transaction_s: list[float] = field(default_factory=list)
    latency_s: list[float] = field(default_factory=list)

    def counted(self) -> tuple[int, ...]:
        """The counters of work inside transactions, for `take_back`."""
        counted: tuple[int, ...] = _of_transactions(self)
        return counted

    def take_back(self, counted: tuple[int, ...]) -> None:
        """Restore earlier values of these counters: the work since then was rolled back."""
        for name, value in zip(_OF_TRANSACTIONS, counted, strict=True):
            setattr(self, name, value)

    def sample(self, samples: list[float], value: float) -> None:
        """Add a sample. If 10,000 samples were not taken, drop the older half."""
        if len(samples) >= 10_000:
            del samples[:5_000]
        samples.append(value)
