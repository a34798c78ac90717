"""Suspects: which ends of processes count for a record, and what becomes of the record."""

from __future__ import annotations

import msgspec
import pytest
from interlock.engine.bus import TopicPartition
from interlock.engine.protocol.poison.suspects import (
    MOST_CONDEMNED,
    MOST_TRIES,
    NEAR,
    SUSPECTS,
    WIDTH_ALONE,
    WIDTHS,
    Suspects,
    SuspectStage,
    process_of,
    suspect_text,
    why_stopped,
)
from interlock.engine.records import Condemned, OffsetMetadata, SuspectRecords, decode_json, encode_json

TP = TopicPartition("b-event", 0)


def taken_over(
    former: OffsetMetadata, own: str = "b-engine-d-new.1", *members: str, offset: int = 0, unread: bool = True
) -> Suspects:
    suspects = Suspects(former)
    suspects.take_over(former, offset, own, members, unread=unread)
    return suspects


def left_by(
    committer: str,
    suspected: SuspectRecords | None = None,
    *,
    condemned: Condemned | None = None,
    ended_cleanly: bool = False,
) -> OffsetMetadata:
    given = {"suspects": suspected, "condemned": condemned, "ended_cleanly": ended_cleanly or None}
    return OffsetMetadata(
        applied=0, committer=committer, **{name: each for name, each in given.items() if each}
    )


def test_a_process_is_named_by_its_transactional_id_without_the_number_of_the_run() -> None:
    assert process_of("b-engine-d-7f3a.12") == "b-engine-d-7f3a"
    assert process_of("b-engine-a.b-7f3a") == "b-engine-a.b-7f3a"
    assert process_of("b-engine-a.b-7f3a.1") == "b-engine-a.b-7f3a"


def test_records_that_a_dead_process_left_unread_are_suspect() -> None:
    assert taken_over(left_by("b-engine-d-old.1"), offset=7).records == SuspectRecords(WIDTHS[0], SUSPECTS, 7)


@pytest.mark.parametrize(
    "former", [left_by(""), left_by("b-engine-d-old.1", ended_cleanly=True)], ids=["nobody", "ended cleanly"]
)
def test_nothing_is_suspect_when_no_process_ended(former: OffsetMetadata) -> None:
    assert taken_over(former).records is None


def test_nothing_is_suspect_when_the_process_is_still_a_member_or_nothing_is_unread() -> None:
    old = left_by("b-engine-d-old.1")
    assert taken_over(old, "b-engine-d-new.1", "b-engine-d-old.1").records is None
    assert taken_over(old, "b-engine-d-new.1", "b-engine-d-old.2").records is None
    assert taken_over(old, "b-engine-d-old.2").records is None
    assert taken_over(old, unread=False).records is None


def owners_of(suspected: SuspectRecords, offsets: list[int]) -> list[tuple[int, int, int]]:
    """What each of the owners concludes, if all before it ended: at these committed offsets."""
    suspects = []
    for n, offset in enumerate(offsets):
        found = taken_over(left_by(f"b-engine-d-{n}.1", suspected), offset=offset).records
        suspects.append((found.width, found.left, found.at))
        suspected = found
    return suspects


def test_each_end_on_the_first_records_makes_groups_smaller_down_to_one_record_alone() -> None:
    owners = owners_of(SuspectRecords(WIDTHS[0], SUSPECTS, 5), [5] * 5)
    assert owners == [
        (300, SUSPECTS, 5),
        (10, 300, 5),
        (1, 10, 5),
        (WIDTH_ALONE, 1, -1),
        (WIDTH_ALONE, 1, -1),
    ]


def test_an_end_after_committed_records_keeps_the_group_size_the_first_time() -> None:
    """It may have had other reasons; what a pass had taken then is what is suspect."""
    owners = owners_of(SuspectRecords(300, SUSPECTS, 0), [3000, 3050, 3080, 3085, 3086, 3086, 3087])
    assert owners == [
        (300, 300, -1),
        (10, 300, 3050),
        (10, 10, -1),
        (1, 10, 3085),
        (1, 1, -1),
        (WIDTH_ALONE, 1, -1),
        (WIDTH_ALONE, 1, -1),
    ]


def test_ends_that_each_follow_progress_make_no_group_smaller() -> None:
    owners = owners_of(SuspectRecords(WIDTHS[0], SUSPECTS, 0), [3000, 6000, 9000, 9000])
    assert owners == [(WIDTHS[0], SUSPECTS, offset) for offset in (3000, 6000, 9000)] + [
        (300, SUSPECTS, 9000)
    ]


def test_a_few_records_that_went_well_are_no_sign_that_something_else_ended_it() -> None:
    assert owners_of(SuspectRecords(WIDTHS[0], SUSPECTS, 0), [99]) == [(300, SUSPECTS, 99)]
    assert owners_of(SuspectRecords(WIDTHS[0], SUSPECTS, 0), [100]) == [(WIDTHS[0], SUSPECTS, 100)]


def test_an_owner_begins_where_the_one_before_it_stopped_in_good_order() -> None:
    left = left_by("b-engine-d-old.1", SuspectRecords(100, SUSPECTS, 0), ended_cleanly=True)
    assert taken_over(left, offset=3000).records == SuspectRecords(100, SUSPECTS, 3000)
    assert taken_over(left_by("", SuspectRecords(100, 7)), offset=3000).records == SuspectRecords(100, 7), (
        "the second time"
    )


def test_a_group_keeps_the_offset_where_it_began() -> None:
    suspects = Suspects(OffsetMetadata(applied=0, suspects=SuspectRecords(30, 40, 5)))
    suspects.processed()
    assert suspects.records == SuspectRecords(30, 39, 5)


def test_only_an_end_during_the_try_of_one_record_alone_is_counted() -> None:
    counted = taken_over(left_by("b-engine-d-old.1", SuspectRecords(WIDTH_ALONE, 9, 5, trying=True)))
    assert counted.records == SuspectRecords(WIDTH_ALONE, 9, 5, ended=("b-engine-d-old.1",))
    again = taken_over(left_by("b-engine-d-old.1", SuspectRecords(WIDTH_ALONE, 9, 5, trying=False)))
    assert again.records == SuspectRecords(WIDTH_ALONE, 9, 5)
    ended_cleanly = taken_over(
        left_by("b-engine-d-old.1", SuspectRecords(WIDTH_ALONE, 9, 5, trying=True), ended_cleanly=True)
    )
    assert ended_cleanly.records == SuspectRecords(WIDTH_ALONE, 9, 5)


def test_a_process_that_is_a_member_again_had_not_ended() -> None:
    suspected = SuspectRecords(WIDTH_ALONE, 9, 5, trying=True, ended=("b-engine-d-a.1", "b-engine-d-b.1"))
    found = taken_over(left_by("b-engine-d-c.1", suspected), "b-engine-d-new.1", "b-engine-d-a.2")
    assert found.records == SuspectRecords(WIDTH_ALONE, 9, 5, ended=("b-engine-d-b.1", "b-engine-d-c.1"))


def test_a_try_is_committed_before_it_and_cleared_by_its_success() -> None:
    suspects = Suspects(left_by("x", SuspectRecords(WIDTH_ALONE, 2, 5, ended=("b-engine-d-a.1",))))
    suspects.names_owner = True
    assert suspects.begin(5)
    assert suspects.records == SuspectRecords(WIDTH_ALONE, 2, 5, trying=True, ended=("b-engine-d-a.1",))
    suspects.committed()
    assert suspects.processed()
    assert suspects.records == SuspectRecords(WIDTH_ALONE, 1)
    suspects.committed()
    assert suspects.begin(7), "the next one is another record"
    assert suspects.records == SuspectRecords(WIDTH_ALONE, 1, 7, trying=True)
    suspects.committed()
    assert suspects.processed()
    assert suspects.records is None


def test_a_try_that_was_rolled_back_is_not_committed_again() -> None:
    suspects = Suspects(OffsetMetadata(applied=0, suspects=SuspectRecords(WIDTH_ALONE, 2, 5)))
    suspects.begin(5)
    suspects.committed()
    suspects.rollback()
    assert suspects.records == SuspectRecords(WIDTH_ALONE, 2, 5)
    assert suspects.changed


def test_a_committed_try_that_was_rolled_back_must_be_withdrawn_before_the_next_try() -> None:
    suspects = Suspects(OffsetMetadata(applied=0, suspects=SuspectRecords(WIDTH_ALONE, 2, 5)))
    suspects.begin(5)
    assert not suspects.must_withdraw
    suspects.committed()
    suspects.rollback()
    assert suspects.must_withdraw
    suspects.begin(5)
    assert not suspects.must_withdraw, "it is tried again"
    suspects.rollback()
    suspects.committed()
    assert not suspects.must_withdraw


def test_a_pass_takes_no_more_than_its_group_of_suspects() -> None:
    suspects = Suspects(OffsetMetadata(applied=0, suspects=SuspectRecords(30, 40)))
    suspects.names_owner = True
    assert not suspects.begin(0)
    assert [suspects.processed() for _ in range(30)] == [False] * 29 + [True]
    assert suspects.records == SuspectRecords(30, 10)


def test_the_first_record_of_a_new_owner_waits_until_its_id_is_committed() -> None:
    suspects = Suspects(OffsetMetadata(applied=0))
    assert suspects.watched
    assert suspects.begin(0)
    suspects.committed()
    assert not suspects.watched


def test_a_record_is_condemned_after_five_processes_and_not_tried_again() -> None:
    ended = tuple(f"b-engine-d-{n}.1" for n in range(MOST_TRIES))
    suspects = Suspects(
        OffsetMetadata(applied=0, suspects=SuspectRecords(WIDTH_ALONE, 2, 5, ended=ended[:-1]))
    )
    suspects.begin(5)
    assert suspects.stage is SuspectStage.ALONE
    suspects = Suspects(OffsetMetadata(applied=0, suspects=SuspectRecords(WIDTH_ALONE, 2, 5, ended=ended)))
    suspects.begin(5)
    assert suspects.stage is SuspectStage.CONDEMNED
    assert not suspects.records.trying
    suspects.begin(6)
    assert suspects.stage is SuspectStage.ALONE, "they ended on another record"


def test_only_eight_records_near_each_other_are_dead_lettered_then_the_partition_stops() -> None:
    suspects = Suspects(OffsetMetadata(applied=0))
    for n in range(MOST_CONDEMNED):
        suspects.dead_lettered(n)
    assert suspects.condemned == Condemned(MOST_CONDEMNED, MOST_CONDEMNED - 1)
    ended = tuple(f"b-engine-d-{n}.1" for n in range(MOST_TRIES))
    near = left_by(
        "x", SuspectRecords(WIDTH_ALONE, 2, MOST_CONDEMNED, ended=ended), condemned=suspects.condemned
    )
    assert Suspects(near).stage is SuspectStage.TOO_MANY
    text = why_stopped(near)
    assert f"record {MOST_CONDEMNED}" in text
    far = left_by(
        "x", SuspectRecords(WIDTH_ALONE, 2, MOST_CONDEMNED + NEAR, ended=ended), condemned=suspects.condemned
    )
    assert Suspects(far).stage is SuspectStage.CONDEMNED
    assert why_stopped(far) is None
    suspects = Suspects(far)
    suspects.dead_lettered(MOST_CONDEMNED + NEAR)
    assert suspects.condemned == Condemned(1, MOST_CONDEMNED + NEAR)


def test_health_names_a_record_and_the_processes_that_ended_on_it() -> None:
    assert suspect_text(TP, OffsetMetadata(applied=0)) is None
    assert suspect_text(TP, left_by("x", SuspectRecords(WIDTH_ALONE, 2, 5, trying=True))) is None
    text = suspect_text(TP, left_by("x", SuspectRecords(WIDTH_ALONE, 2, 5, ended=("b-engine-d-a.1",))))
    assert text == (
        "b-event[0]@5: 1 engine process ended while processing only this record: b-engine-d-a.1. After 5 "
        "processes the record goes to the dead-letter topic."
    )


def test_a_very_long_id_is_counted_without_its_beginning() -> None:
    long = f"{'b' * 100}-engine-{'d' * 100}-{'0' * 12}"
    counted = taken_over(left_by(f"{long}.9", SuspectRecords(WIDTH_ALONE, 9, 5, trying=True))).records
    assert counted.ended == (f"{'d' * 87}-{'0' * 12}.9",)
    again = taken_over(left_by("b-engine-d-c.1", counted), "b-engine-d-new.1", f"{long}.10").records
    assert again.ended == (), "it is a member again"


def test_without_suspects_nothing_is_written() -> None:
    assert encode_json(OffsetMetadata(applied=1)) == b'{"v":1,"R":1,"g":[],"c":"","n":0,"t":""}'


def test_a_reader_that_knows_no_suspects_ignores_them() -> None:
    class Before(msgspec.Struct, frozen=True, kw_only=True):
        v: int
        R: int
        g: list[tuple[int, int, int]] = []
        c: str = ""
        n: int = 0
        t: str = ""

    metadata = OffsetMetadata(
        applied=7,
        committer="x.1",
        transaction=3,
        ended_cleanly=True,
        suspects=SuspectRecords(WIDTH_ALONE, 9, 5, trying=True),
        condemned=Condemned(1, 5),
    )
    assert decode_json(Before, encode_json(metadata), "x") == Before(v=metadata.v, R=7, c="x.1", n=3)


def test_without_the_members_no_further_process_counts_as_ended() -> None:
    old = left_by("b-engine-d-old.1")
    suspects = Suspects(old)
    suspects.take_over(old, 0, "b-engine-d-new.1", None, unread=True)
    assert suspects.records is None
    tried = left_by(
        "b-engine-d-q.1", SuspectRecords(WIDTH_ALONE, 9, 5, trying=True, ended=("b-engine-d-p.1",))
    )
    suspects = Suspects(tried)
    suspects.take_over(tried, 0, "b-engine-d-new.1", None, unread=True)
    assert suspects.records == SuspectRecords(WIDTH_ALONE, 9, 5, trying=False, ended=("b-engine-d-p.1",))


def test_conclusions_stay_when_a_partition_is_lost_before_its_owner_is_committed() -> None:
    suspects = taken_over(left_by("b-engine-d-old.1", SuspectRecords(WIDTH_ALONE, 9, 5, trying=True)))
    suspects.rollback()
    assert suspects.records == SuspectRecords(WIDTH_ALONE, 9, 5, ended=("b-engine-d-old.1",))
    assert suspects.changed


def test_each_stage_follows_from_what_is_committed() -> None:
    ended = tuple(f"b-engine-d-{n}.1" for n in range(MOST_TRIES))
    condemned = SuspectRecords(WIDTH_ALONE, 2, MOST_CONDEMNED, ended=ended)
    stages = {
        SuspectStage.NONE: (None, Condemned(1, 0)),
        SuspectStage.IN_GROUPS: (SuspectRecords(1, 10, 0), None),
        SuspectStage.ALONE: (SuspectRecords(WIDTH_ALONE, 1), None),
        SuspectStage.CONDEMNED: (condemned, Condemned(MOST_CONDEMNED - 1, 0)),
        SuspectStage.TOO_MANY: (condemned, Condemned(MOST_CONDEMNED, 0)),
    }
    assert set(stages) == set(SuspectStage)
    for stage, (suspected, before) in stages.items():
        assert Suspects(left_by("x", suspected, condemned=before)).stage is stage
