"""Suspects: records of one partition that may have ended an engine process. No I/O.

docs/understand/engine/suspects.md has the rules, with a timeline. The metadata of the partition's committed
offset hold the suspects. They are committed before a record is tried, so they survive the process.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, Final

import msgspec

from ...bus import TopicPartition
from ...records import Condemned, OffsetMetadata, SuspectRecords

# A pass takes at most this many records (`loop.MOST_RECORDS`), so one of them may have ended the process.
SUSPECTS: Final = 10_000
# How many suspects of each partition a pass takes: at first all; whenever a process ends on a group, the next
# smaller number; then WIDTH_ALONE, one record and nothing else. Only then are the ends of processes counted.
WIDTHS: Final = (SUSPECTS, 300, 10, 1)
WIDTH_ALONE: Final = 0
ENOUGH_COMMITTED: Final = 100  # records: a former owner that committed them made progress
MOST_TRIES: Final = 5
ALONE_AFTER: Final = 30  # records after a condemned one are tried alone too: they may resemble it
# After so many condemned records, each near the previous one, something else must be ending the processes.
MOST_CONDEMNED: Final = 8
NEAR: Final = 10_000  # offsets
MOST_NAME_CHARS: Final = 100  # of a process name, in metadata


class SuspectStage(Enum):
    """What the next pass may do with the next records of a partition.

    NONE -> IN_GROUPS -> ALONE -> CONDEMNED -> ALONE (the 30 records after it) -> NONE
                                            -> TOO_MANY (the partition stops)

    Each step to the right follows the end of a process; a process that survives its suspects returns to NONE.
    """

    NONE = "nothing is suspected"
    IN_GROUPS = "a pass takes a limited number of suspects of the partition, beside other work"
    ALONE = "a pass takes the next record, and does nothing else"
    CONDEMNED = "the next record goes to the dead-letter topic without another try"
    TOO_MANY = "the next record is condemned, and so were too many before it: the partition must stop"


# The stages in which a pass takes only the next record.
ONE_RECORD: Final = frozenset({SuspectStage.ALONE, SuspectStage.CONDEMNED, SuspectStage.TOO_MANY})


def process_of(transactional_id: str) -> str:
    """The process name of an engine: its transactional id without the number of the run."""
    process, _, run = transactional_id.rpartition(".")
    return process if run.isdigit() else transactional_id


def name_of(transactional_id: str) -> str:
    """The transactional id as metadata have it: a long process name is cut to its last characters."""
    process = process_of(transactional_id)
    return process[-MOST_NAME_CHARS:] + transactional_id[len(process) :]


class Suspects:
    """The suspects of one partition; part of its task.

    `records`: which ones, None if there are none. `names_owner`: the committed metadata contain this engine's
    id, so others would notice its end. `ends_cleanly`: the next commit says that this engine ends its work on
    the partition. Changes are durable with the next commit of the partition; `rollback` undoes them.
    """

    def __init__(self, metadata: OffsetMetadata) -> None:
        self.records = self._committed_records = metadata.suspects or None
        self._restored = self.records  # what `rollback` returns to
        self.condemned = self._committed_condemned = metadata.condemned or None
        self.names_owner = False
        self.ends_cleanly = False
        self._taken = 0  # suspects that this pass has processed

    @property
    def stage(self) -> SuspectStage:
        return stage_of(self.records, self.condemned)

    def take_over(
        self, metadata: OffsetMetadata, offset: int, own: str, members: Iterable[str] | None, *, unread: bool
    ) -> None:
        """Conclude from the former owner's last commit whether its process ended, and on which records.

        offset: the committed one. own: this engine's transactional id. members: those of the group; None if
        unknown, and then no further process counts as ended. unread: whether the partition has records that
        the former owner may have tried. A process that is a member again has not ended: it was paused, or has
        new clients.
        """
        self.records = self._restored = self._conclude(metadata, offset, own, members) if unread else None

    @staticmethod
    def _conclude(
        metadata: OffsetMetadata, offset: int, own: str, members: Iterable[str] | None
    ) -> SuspectRecords | None:
        suspected = metadata.suspects or None
        running = {process_of(name_of(each)) for each in (own, *(members or ()))}
        former = name_of(metadata.committer)
        gone = (
            members is not None
            and bool(former)
            and not metadata.ended_cleanly
            and process_of(former) not in running
        )
        if suspected is None:
            return _narrowed(SUSPECTS + 1, SUSPECTS, offset) if gone else None  # the first of WIDTHS
        if gone and suspected.width != WIDTH_ALONE:
            left = min(suspected.width, suspected.left)  # no pass took more
            # It committed enough records to show progress: something else may have ended it.
            enough = max(1, min(ENOUGH_COMMITTED, _narrower(suspected.width)))
            if suspected.at >= 0 and offset - suspected.at >= enough:
                return SuspectRecords(suspected.width, left, offset if is_usual(suspected) else -1)
            return _narrowed(suspected.width, left, offset)
        ended = tuple(each for each in suspected.ended if process_of(each) not in running)
        if gone and suspected.trying and former not in ended:
            ended = (*ended, former)
        # From here on this owner's progress counts.
        at = offset if suspected.width != WIDTH_ALONE and suspected.at >= 0 else suspected.at
        return SuspectRecords(suspected.width, suspected.left, at, trying=False, ended=ended)

    # -- a pass

    @property
    def watched(self) -> bool:
        """Whether a pass must call `SuspectPasses.admits` before it takes a record."""
        return not self.names_owner or self.records is not None

    @property
    def must_withdraw(self) -> bool:
        """Whether the committed metadata still say `trying`, although that try was rolled back."""
        trying = self._committed_records is not None and self._committed_records.trying
        return trying and not (self.records is not None and self.records.trying)

    def begin(self, offset: int) -> bool:
        """Begin a pass with the record at this offset; True if a commit must come first."""
        self._taken = 0
        suspected = self.records
        if suspected is not None and suspected.width == WIDTH_ALONE:
            if suspected.at != offset:
                suspected = msgspec.structs.replace(suspected, at=offset, ended=())
            self.records = msgspec.structs.replace(suspected, trying=not is_condemned(suspected))
            return not self.names_owner or self.records != self._committed_records
        return not self.names_owner

    def begin_group(self) -> None:
        """Begin a pass that may take a group of the suspects."""
        self._taken = 0

    def processed(self) -> bool:
        """Note that a record was processed; True if the pass must take no more of this partition."""
        suspected = self.records
        if suspected is None:
            return False
        self._taken += 1
        left = suspected.left - 1
        at = -1 if suspected.width == WIDTH_ALONE else suspected.at
        self.records = None if left <= 0 else SuspectRecords(suspected.width, left, at)
        return left <= 0 or self._taken >= suspected.width

    def dead_lettered(self, offset: int) -> None:
        """Note that the condemned record at this offset goes to the dead-letter topic."""
        last = self.condemned
        count = last.count + 1 if last is not None and offset - last.at <= NEAR else 1
        self.condemned = Condemned(count, offset)
        self.records = SuspectRecords(WIDTH_ALONE, 1 + ALONE_AFTER)

    def at_end(self) -> None:
        """Note that all records of the partition were processed: no suspect is left."""
        self.records = None

    # -- the commit

    @property
    def changed(self) -> bool:
        return self.records != self._committed_records

    def metadata(self) -> dict[str, Any]:
        """The fields of the next commit's OffsetMetadata."""
        fields: dict[str, Any] = {}
        if self.ends_cleanly:
            fields["ended_cleanly"] = True
        if self.records is not None:
            fields["suspects"] = self.records
        if self.condemned is not None:
            fields["condemned"] = self.condemned
        return fields

    def committed(self) -> None:
        self._committed_records = self._restored = self.records
        self._committed_condemned = self.condemned
        self.names_owner = True

    def rollback(self) -> None:
        self.records, self.condemned = self._restored, self._committed_condemned
        if self.records is not None and self.records.trying:  # the try did not finish
            self.records = msgspec.structs.replace(self.records, trying=False)
        self.ends_cleanly = False
        self._taken = 0


def stage_of(suspected: SuspectRecords | None, condemned: Condemned | None) -> SuspectStage:
    """The stage that follows from a partition's suspects and condemned records."""
    if suspected is None:
        return SuspectStage.NONE
    if suspected.width != WIDTH_ALONE:
        return SuspectStage.IN_GROUPS
    if not is_condemned(suspected):
        return SuspectStage.ALONE
    if condemned is not None and condemned.count >= MOST_CONDEMNED and suspected.at - condemned.at <= NEAR:
        return SuspectStage.TOO_MANY
    return SuspectStage.CONDEMNED


def _narrowed(width: int, left: int, offset: int) -> SuspectRecords:
    """The suspects from this offset on, in the next smaller groups."""
    narrower = _narrower(width)
    return SuspectRecords(narrower, left, -1 if narrower == WIDTH_ALONE else offset)


def _narrower(width: int) -> int:
    return next((each for each in WIDTHS if each < width), WIDTH_ALONE)


def is_condemned(suspected: SuspectRecords) -> bool:
    """Whether enough processes ended on the record that is tried."""
    return len(suspected.ended) >= MOST_TRIES


def why_stopped(metadata: OffsetMetadata) -> str | None:
    """Why the committed metadata stop a partition; None if they do not."""
    suspected, condemned = metadata.suspects, metadata.condemned
    if not suspected or not condemned or stage_of(suspected, condemned) is not SuspectStage.TOO_MANY:
        return None
    return (
        f"engine processes keep ending on its records. {condemned.count} of them went to the dead-letter "
        f"topic. Then, at record {suspected.at}, {ended_text(suspected)}. The records are probably not the "
        "cause: find out why the engines end."
    )


def ended_text(suspected: SuspectRecords) -> str:
    """Which processes ended on the record that is tried."""
    count = len(suspected.ended)
    processes = "1 engine process" if count == 1 else f"{count} engine processes"
    return f"{processes} ended while processing only this record: {', '.join(suspected.ended)}"


def takeover_text(tp: TopicPartition, former: str, suspected: SuspectRecords) -> str:
    """The log message of an engine that takes over a partition with suspects."""
    ended = f" Record {suspected.at}: {ended_text(suspected)}." if suspected.ended else ""
    tried = "one" if suspected.width == WIDTH_ALONE else f"at most {suspected.width}"
    return (
        f"{tp}: engine process {former} ended, perhaps on one of the next {suspected.left} records. They "
        f"are tried {tried} at a time.{ended}"
    )


def is_usual(suspected: SuspectRecords) -> bool:
    """Whether this is the first stage, which any unclean exit leaves."""
    return suspected.width == max(WIDTHS, default=WIDTH_ALONE)


def suspect_text(tp: TopicPartition, metadata: OffsetMetadata) -> str | None:
    """A message about the record on which processes have ended; None if there is none."""
    suspected = metadata.suspects
    if not suspected or suspected.at < 0 or not suspected.ended:
        return None
    return (
        f"{tp}@{suspected.at}: {ended_text(suspected)}. After {MOST_TRIES} processes the record goes to the "
        "dead-letter topic."
    )
