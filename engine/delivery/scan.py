"""A scan of one partition of the action topic: what it reads again, and what it has found so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .firings import OpenFiring
from .window import Scope


@dataclass(slots=True)
class Scan:
    """A scan in progress. scopes: {what it reads: from which offset}.

    until: {scope: up to which offset its open firings are noted}, if it takes nothing beyond that; None if it
    reads up to the partition's position. most_noted: how many firings it may note.

    staged: the firings that it found, by record key; they are delivered when it ends. taken: the keys of
    those that were noted before. refused: {scope without room for all that was found: the offset from which
    on it is left out again}. unreadable: sinks with a record of another version. noted: {record key of a
    firing without room: its offset}. noted_to: the offset of the first such firing that could not be noted;
    None if all were.
    """

    scopes: Mapping[Scope, int]
    until: Mapping[Scope, int] | None = None
    most_noted: int = 0
    staged: dict[bytes, OpenFiring] = field(default_factory=dict)
    taken: set[bytes] = field(default_factory=set)
    unreadable: set[str] = field(default_factory=set)
    refused: dict[Scope, int] = field(default_factory=dict)
    noted: dict[bytes, int] = field(default_factory=dict)
    noted_to: int | None = None

    def reads(self, scope: Scope, offset: int) -> bool:
        """Whether it reads a scope at this offset: the last batch may go beyond what is noted."""
        if self.until is not None:
            return offset < self.until.get(scope, 0)
        return scope in self.scopes

    def refuse(self, scope: Scope, offset: int) -> None:
        """Leave a scope out again, from this offset on or from an earlier one that was refused."""
        self.refused[scope] = min(offset, self.refused.get(scope, offset))

    def refuse_unreadable(self, subscription: str, offset: int) -> None:
        """Leave a sink out from this record on, because another version wrote it.

        The sink is not covered afterwards (`NotedFirings`): if the scan does not read this sink, it has
        passed firings before this record that may be left out.
        """
        self.unreadable.add(subscription)
        self.refuse((subscription, None), offset)

    def note(self, firing: OpenFiring) -> None:
        """Note a firing that was refused, if all before it were noted and there is room."""
        if self.noted_to is not None or firing.key in self.noted:
            return
        if len(self.noted) < self.most_noted:
            self.noted[firing.key] = firing.record.offset
        else:
            self.noted_to = firing.record.offset

    def is_over(self, position: int, end: int) -> bool:
        """Whether it has read enough. position: up to which it has read; end: the partition's position."""
        if position >= end:
            return True
        until = self.until
        return until is not None and all(s in self.refused or position >= at for s, at in until.items())
