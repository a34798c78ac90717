"""Attempts: how often a process has ended on a record, kept where it survives the process. No I/O.

docs/understand/engine/suspects.md has the states and their timeline. The count stands in the metadata of the
partition's committed offset, written before the record is tried.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from ...bus import TopicPartition
from ...records import Aside, OffsetMetadata, Trial

# The most that a pass had taken from one partition when its process ended (`loop.MOST_RECORDS`).
SUSPECTS: Final = 10_000
# Of suspects a pass takes so many from each partition, at first all; where a process ends on the first, the
# next of these, and then one of one partition alone, with nothing beside it: only that is counted.
WIDTHS: Final = (SUSPECTS, 300, 10, 1)
ALONE: Final = 0
ENOUGH: Final = 100  # records that were committed: their owner came to something
MOST_TRIES: Final = 5
WARY: Final = 30  # so many behind one that was set aside are tried alone as well: they may be of its kind
# So many records of a partition are set aside, each near the one before it; then it is no record that kills.
MOST_ASIDE: Final = 8
NEAR: Final = 10_000  # offsets
MOST_CHARS: Final = 100


def process_of(transactional_id: str) -> str:
    """The process of an engine: its id without the number at the end."""
    process, _, life = transactional_id.rpartition(".")
    return process if life.isdigit() else transactional_id


def name_of(transactional_id: str) -> str:
    """The id as it is counted: without the beginning of a long one, since metadata have little room."""
    process = process_of(transactional_id)
    return process[-MOST_CHARS:] + transactional_id[len(process) :]


class Attempts:
    """What is known of one partition; part of its task.

    `trial`: None where nothing is suspected. `noted`: the committed metadata bear the owner's id, so that its
    end would be noticed. What changes is durable with the next commit of the partition; `rollback` goes back.
    """

    def __init__(self, metadata: OffsetMetadata) -> None:
        self.trial = self._kept_trial = metadata.a or None
        self._judged = self.trial  # what is committed, with what the end of its committer makes of it
        self.aside = self._kept_aside = metadata.s or None
        self.noted = False
        self.in_order = False  # the owner ends in good order
        self._used = 0  # of the width, in this pass

    def take_over(
        self, metadata: OffsetMetadata, offset: int, own: str, members: Iterable[str] | None, *, unread: bool
    ) -> None:
        """Judge what the former owner left. unread: whether there is anything that it may have tried.

        offset: the committed one. A process that is a member again has not ended: it went on with new
        clients, or was paused. Where the members are not known, None, nobody more is taken for ended and
        nobody less.
        """
        self.trial = self._judged = self._judge(metadata, offset, own, members) if unread else None

    @staticmethod
    def _judge(
        metadata: OffsetMetadata, offset: int, own: str, members: Iterable[str] | None
    ) -> Trial | None:
        trial = metadata.a or None
        living = {process_of(name_of(each)) for each in (own, *(members or ()))}
        former = name_of(metadata.c)
        gone = members is not None and bool(former) and not metadata.e and process_of(former) not in living
        if trial is None:
            return _narrowed(SUSPECTS + 1, SUSPECTS, offset) if gone else None
        if gone and trial.width != ALONE:
            left = min(trial.width, trial.left)  # it took so many at most
            # It committed others, as many as would make a difference: something else may have ended it.
            if trial.at >= 0 and offset - trial.at >= max(1, min(ENOUGH, _narrower(trial.width))):
                return Trial(trial.width, left, offset if is_usual(trial) else -1)
            return _narrowed(trial.width, left, offset)
        ended = tuple(each for each in trial.ended if process_of(each) not in living)
        if gone and trial.trying and former not in ended:
            ended = (*ended, former)
        at = offset if trial.width != ALONE and trial.at >= 0 else trial.at  # this owner begins here
        return Trial(trial.width, trial.left, at, trying=False, ended=ended)

    # -- a pass

    @property
    def watched(self) -> bool:
        """Whether a pass must look before it takes a record."""
        return not self.noted or self.trial is not None

    @property
    def alone(self) -> bool:
        """Whether the next record is tried alone."""
        return self.trial is not None and self.trial.width == ALONE

    @property
    def outlived(self) -> bool:
        """Whether the committed metadata say that a record is tried, and it is not: it was taken back."""
        said = self._kept_trial is not None and self._kept_trial.trying
        return said and not (self.trial is not None and self.trial.trying)

    @property
    def condemned(self) -> bool:
        """Whether the record at hand is not to be tried any more."""
        return self.trial is not None and is_condemned(self.trial)

    @property
    def full(self) -> bool:
        """Whether no further record is to be set aside."""
        return self.trial is not None and is_stopped(self.trial, self.aside)

    def begin(self, offset: int) -> bool:
        """A pass begins with this record; whether a commit must precede it."""
        self._used = 0
        trial = self.trial
        if trial is not None and trial.width == ALONE:
            if trial.at != offset:
                trial = msgspec.structs.replace(trial, at=offset, ended=())
            self.trial = msgspec.structs.replace(trial, trying=not is_condemned(trial))
        return not self.noted or (self.trial != self._kept_trial and self.alone)

    def begin_wide(self) -> None:
        """A pass begins that may take as many of its records as are tried together."""
        self._used = 0

    def passed(self) -> bool:
        """A record was worked on; True where the pass is to take no more of this partition."""
        trial = self.trial
        if trial is None:
            return False
        self._used += 1
        left = trial.left - 1
        at = -1 if trial.width == ALONE else trial.at
        self.trial = None if left <= 0 else Trial(trial.width, left, at)
        return left <= 0 or self._used >= trial.width

    def set_aside(self, offset: int) -> None:
        """The record goes to the dead letters."""
        near = self.aside is not None and offset - self.aside.at <= NEAR
        self.aside = Aside(self.aside.count + 1 if near and self.aside is not None else 1, offset)
        self.trial = Trial(ALONE, 1 + WARY)

    def at_end(self) -> None:
        """All there is was worked on."""
        self.trial = None

    # -- the commit

    @property
    def changed(self) -> bool:
        return self.trial != self._kept_trial

    def metadata(self) -> dict[str, Any]:
        """What goes into the metadata of the commit."""
        own: dict[str, Any] = {}
        if self.in_order:
            own["e"] = True
        if self.trial is not None:
            own["a"] = self.trial
        if self.aside is not None:
            own["s"] = self.aside
        return own

    def committed(self) -> None:
        self._kept_trial = self._judged = self.trial
        self._kept_aside = self.aside
        self.noted = True

    def rollback(self) -> None:
        self.trial, self.aside = self._judged, self._kept_aside
        if self.trial is not None and self.trial.trying:  # it was not tried to its end
            self.trial = msgspec.structs.replace(self.trial, trying=False)
        self.in_order = False
        self._used = 0


def _narrowed(width: int, left: int, offset: int) -> Trial:
    """The trial of so many suspects beyond the offset, with the next width."""
    narrower = _narrower(width)
    return Trial(narrower, left, -1 if narrower == ALONE else offset)


def _narrower(width: int) -> int:
    return next((each for each in WIDTHS if each < width), ALONE)


def is_condemned(trial: Trial) -> bool:
    """Whether enough processes have ended on the record that is tried."""
    return len(trial.ended) >= MOST_TRIES


def is_stopped(trial: Trial, aside: Aside | None) -> bool:
    """Whether the record would be one too many to be set aside."""
    return (
        is_condemned(trial)
        and aside is not None
        and aside.count >= MOST_ASIDE
        and trial.at - aside.at <= NEAR
    )


def why_stopped(metadata: OffsetMetadata) -> str | None:
    """Why a partition is not read on, as its committed metadata tell; None where it is."""
    trial, aside = metadata.a, metadata.s
    if not trial or not aside or not is_stopped(trial, aside):
        return None
    return (
        f"processes end on one record of it after the other. {aside.count} were set aside, and on record "
        f"{trial.at} as well {told(trial)}; that is hardly their doing. Look for what ends the engines."
    )


def told(trial: Trial) -> str:
    """Which processes ended on the record that is tried."""
    count = len(trial.ended)
    return f"{count} engine process{'es' if count != 1 else ''} ended: {', '.join(trial.ended)}"


def taken_with_care(tp: TopicPartition, former: str, trial: Trial) -> str:
    """A sentence for whoever reads the log of an engine that takes a partition over."""
    ended = f" Record {trial.at}: {told(trial)}." if trial.ended else ""
    taken = "They are taken alone" if trial.width == ALONE else f"At most {trial.width} are taken at a time"
    return (
        f"{tp}: an engine process ended before one of the next {trial.left} records of it, perhaps on it; "
        f"the last was {former}. {taken}.{ended}"
    )


def is_usual(trial: Trial) -> bool:
    """Whether it is what any end of a process leaves that was not told to stop."""
    return trial.width == max(WIDTHS, default=ALONE)


def under_trial(tp: TopicPartition, metadata: OffsetMetadata) -> str | None:
    """A sentence for a record on which processes have ended; None where there is none."""
    trial = metadata.a
    if not trial or trial.at < 0 or not trial.ended:
        return None
    return (
        f"{tp}@{trial.at}: while it was tried alone {told(trial)}. After {MOST_TRIES} it goes to the dead "
        "letters."
    )
