"""Suspects: records of one partition that may have ended an engine process. No I/O.

docs/understand/engine/suspects.md has the rules, with a timeline. What is known is in the metadata of the
partition's committed offset, written before a record is tried: there it survives the process.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, Final

import msgspec

from ...bus import TopicPartition
from ...records import Aside, OffsetMetadata, Trial

# A pass takes at most this many records from a partition (`loop.MOST_RECORDS`), so one of them ended it.
SUSPECTS: Final = 10_000
# How many suspects of each partition a pass takes: at first all; each time a process ends on the first ones,
# the next smaller group; then one of one partition, with nothing else in the pass. Only that one is counted.
WIDTHS: Final = (SUSPECTS, 300, 10, 1)
ALONE: Final = 0
ENOUGH: Final = 100  # records that the former owner committed: it made progress, so they are not suspect
MOST_TRIES: Final = 5
WARY: Final = 30  # records behind a condemned one that are tried alone as well: they may be like it
# After so many condemned records of a partition, each near the one before, records are not the cause.
MOST_ASIDE: Final = 8
NEAR: Final = 10_000  # offsets
MOST_CHARS: Final = 100


class SuspectStage(Enum):
    """What the next pass may do with the next records of a partition.

    NONE -> IN_GROUPS -> ALONE -> CONDEMNED -> ALONE (the 30 records behind it) -> NONE
                                            -> TOO_MANY (the partition stops)

    Each step to the right follows the end of a process; suspects that a process survives lead back to NONE.
    """

    NONE = "nothing is suspected"
    IN_GROUPS = "a pass takes so many suspects of the partition, beside other work"
    ALONE = "a pass takes the next record, and does nothing else"
    CONDEMNED = "the next record goes to the dead-letter topic without another try"
    TOO_MANY = "the next record is condemned, and so were too many before it: the partition must stop"


# The pass takes nothing but the next record.
ONE_RECORD: Final = frozenset({SuspectStage.ALONE, SuspectStage.CONDEMNED, SuspectStage.TOO_MANY})


def process_of(transactional_id: str) -> str:
    """The process of an engine: its transactional id without the number of the run."""
    process, _, run = transactional_id.rpartition(".")
    return process if run.isdigit() else transactional_id


def name_of(transactional_id: str) -> str:
    """The id as it is kept: the last characters of a long one, because metadata have little room."""
    process = process_of(transactional_id)
    return process[-MOST_CHARS:] + transactional_id[len(process) :]


class Suspects:
    """What is known of one partition; part of its task.

    `trial`: the suspects, None if there are none. `names_owner`: the committed metadata bear this engine's
    id, so that others would notice its end. `ends_cleanly`: the next commit says that this engine does no
    more work on the partition. What changes is durable with the next commit of the partition; `rollback`
    returns to the last one.
    """

    def __init__(self, metadata: OffsetMetadata) -> None:
        self.trial = self._committed_trial = metadata.a or None
        self._restored = self.trial  # what `rollback` returns to
        self.aside = self._committed_aside = metadata.s or None
        self.names_owner = False
        self.ends_cleanly = False
        self._taken = 0  # suspects, in this pass

    @property
    def stage(self) -> SuspectStage:
        return stage_of(self.trial, self.aside)

    def take_over(
        self, metadata: OffsetMetadata, offset: int, own: str, members: Iterable[str] | None, *, unread: bool
    ) -> None:
        """Conclude from the former owner's last commit whether it ended, and on which records.

        offset: the committed one. own: this engine's transactional id. members: those of the group; None if
        they are not known, and then no process counts as ended that did not before. unread: whether the
        partition has a record that the former owner may have tried. A process that is a member again has not
        ended: it was paused, or has new clients.
        """
        self.trial = self._restored = self._conclude(metadata, offset, own, members) if unread else None

    @staticmethod
    def _conclude(
        metadata: OffsetMetadata, offset: int, own: str, members: Iterable[str] | None
    ) -> Trial | None:
        trial = metadata.a or None
        running = {process_of(name_of(each)) for each in (own, *(members or ()))}
        former = name_of(metadata.c)
        gone = members is not None and bool(former) and not metadata.e and process_of(former) not in running
        if trial is None:
            return _narrowed(SUSPECTS + 1, SUSPECTS, offset) if gone else None
        if gone and trial.width != ALONE:
            left = min(trial.width, trial.left)  # it took no more
            # It made progress, as much as tells the widths apart: something else may have ended it.
            if trial.at >= 0 and offset - trial.at >= max(1, min(ENOUGH, _narrower(trial.width))):
                return Trial(trial.width, left, offset if is_usual(trial) else -1)
            return _narrowed(trial.width, left, offset)
        ended = tuple(each for each in trial.ended if process_of(each) not in running)
        if gone and trial.trying and former not in ended:
            ended = (*ended, former)
        at = offset if trial.width != ALONE and trial.at >= 0 else trial.at  # this owner begins here
        return Trial(trial.width, trial.left, at, trying=False, ended=ended)

    # -- a pass

    @property
    def watched(self) -> bool:
        """Whether a pass must ask before it takes a record."""
        return not self.names_owner or self.trial is not None

    @property
    def must_withdraw(self) -> bool:
        """Whether the committed metadata say that a record is being tried, and that try was rolled back."""
        trying = self._committed_trial is not None and self._committed_trial.trying
        return trying and not (self.trial is not None and self.trial.trying)

    def begin(self, offset: int) -> bool:
        """A pass begins with the record at this offset; whether a commit must come before it."""
        self._taken = 0
        trial = self.trial
        if trial is not None and trial.width == ALONE:
            if trial.at != offset:
                trial = msgspec.structs.replace(trial, at=offset, ended=())
            self.trial = msgspec.structs.replace(trial, trying=not is_condemned(trial))
            return not self.names_owner or self.trial != self._committed_trial
        return not self.names_owner

    def begin_group(self) -> None:
        """A pass begins that may take a group of the suspects."""
        self._taken = 0

    def passed(self) -> bool:
        """A record was processed; True if the pass may take no more of this partition."""
        trial = self.trial
        if trial is None:
            return False
        self._taken += 1
        left = trial.left - 1
        at = -1 if trial.width == ALONE else trial.at
        self.trial = None if left <= 0 else Trial(trial.width, left, at)
        return left <= 0 or self._taken >= trial.width

    def dead_lettered(self, offset: int) -> None:
        """The condemned record at this offset goes to the dead-letter topic."""
        near = self.aside is not None and offset - self.aside.at <= NEAR
        self.aside = Aside(self.aside.count + 1 if near and self.aside is not None else 1, offset)
        self.trial = Trial(ALONE, 1 + WARY)

    def at_end(self) -> None:
        """All records of the partition were processed."""
        self.trial = None

    # -- the commit

    @property
    def changed(self) -> bool:
        return self.trial != self._committed_trial

    def metadata(self) -> dict[str, Any]:
        """The fields of the next commit's OffsetMetadata."""
        fields: dict[str, Any] = {}
        if self.ends_cleanly:
            fields["e"] = True
        if self.trial is not None:
            fields["a"] = self.trial
        if self.aside is not None:
            fields["s"] = self.aside
        return fields

    def committed(self) -> None:
        self._committed_trial = self._restored = self.trial
        self._committed_aside = self.aside
        self.names_owner = True

    def rollback(self) -> None:
        self.trial, self.aside = self._restored, self._committed_aside
        if self.trial is not None and self.trial.trying:  # it was not tried to its end
            self.trial = msgspec.structs.replace(self.trial, trying=False)
        self.ends_cleanly = False
        self._taken = 0


def stage_of(trial: Trial | None, aside: Aside | None) -> SuspectStage:
    """The stage that a partition's suspects and its condemned records amount to."""
    if trial is None:
        return SuspectStage.NONE
    if trial.width != ALONE:
        return SuspectStage.IN_GROUPS
    if not is_condemned(trial):
        return SuspectStage.ALONE
    if aside is not None and aside.count >= MOST_ASIDE and trial.at - aside.at <= NEAR:
        return SuspectStage.TOO_MANY
    return SuspectStage.CONDEMNED


def _narrowed(width: int, left: int, offset: int) -> Trial:
    """The same suspects, from the offset on, in the next smaller groups."""
    narrower = _narrower(width)
    return Trial(narrower, left, -1 if narrower == ALONE else offset)


def _narrower(width: int) -> int:
    return next((each for each in WIDTHS if each < width), ALONE)


def is_condemned(trial: Trial) -> bool:
    """Whether enough processes ended on the record that is tried."""
    return len(trial.ended) >= MOST_TRIES


def why_stopped(metadata: OffsetMetadata) -> str | None:
    """Why a partition is not read on, by its committed metadata; None where it is."""
    trial, aside = metadata.a, metadata.s
    if not trial or not aside or stage_of(trial, aside) is not SuspectStage.TOO_MANY:
        return None
    return (
        f"engine processes end on one of its records after another. {aside.count} went to the dead-letter "
        f"topic. Then, on record {trial.at}, {ended_text(trial)}. Records are hardly the cause: look for "
        "what ends the engines."
    )


def ended_text(trial: Trial) -> str:
    """Which processes ended on the record that is tried."""
    count = len(trial.ended)
    return f"{count} engine process{'es' if count != 1 else ''} ended: {', '.join(trial.ended)}"


def takeover_text(tp: TopicPartition, former: str, trial: Trial) -> str:
    """A sentence for the log of an engine that takes a partition with suspects over."""
    ended = f" Record {trial.at}: {ended_text(trial)}." if trial.ended else ""
    taken = "They are taken alone" if trial.width == ALONE else f"At most {trial.width} are taken at a time"
    return (
        f"{tp}: an engine process ended before one of the next {trial.left} records of it, perhaps on it; "
        f"the last was {former}. {taken}.{ended}"
    )


def is_usual(trial: Trial) -> bool:
    """Whether this is what any unclean exit leaves."""
    return trial.width == max(WIDTHS, default=ALONE)


def trial_text(tp: TopicPartition, metadata: OffsetMetadata) -> str | None:
    """A sentence about a record on which processes have ended; None where there is none."""
    trial = metadata.a
    if not trial or trial.at < 0 or not trial.ended:
        return None
    return (
        f"{tp}@{trial.at}: while it was tried alone {ended_text(trial)}. After {MOST_TRIES} it goes to the "
        "dead letters."
    )
