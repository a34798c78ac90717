"""Which ranges are compacted, and what is removed after them."""

from __future__ import annotations

import pytest
from interlock.spark.pipeline import PipelineError
from interlock.spark.pipeline.archive.compaction import compact, ranges
from interlock.spark.pipeline.archive.layout import Folder
from interlock.spark.pipeline.archive.runs import begin

from .conftest import LocalFiles

RUN, LATER = "00000001-0000000a", "00000002-0000000b"
HOUR = 3_600_000


def singles(*numbers: int) -> list[Folder]:
    return [Folder(n, n, RUN) for n in numbers]


def test_ranges_are_complete_and_begin_at_multiples_of_their_size() -> None:
    found = list(ranges(singles(*range(11)), 4, LATER))
    assert [target for target, _ in found] == [Folder(0, 3, LATER), Folder(4, 7, LATER)]
    assert [sources for _, sources in found] == [tuple(singles(0, 1, 2, 3)), tuple(singles(4, 5, 6, 7))]


def test_a_range_is_not_compacted_when_it_is_one_folder_or_lacks_a_batch() -> None:
    assert list(ranges([Folder(0, 3, RUN), *singles(4, 5, 7)], 4, LATER)) == []


def test_ranges_of_a_larger_size_include_folders_of_a_smaller_one() -> None:
    [(target, sources)] = ranges([Folder(0, 1, RUN), *singles(2, 3)], 4, LATER)
    assert (target, sources) == (Folder(0, 3, LATER), (Folder(0, 1, RUN), *singles(2, 3)))


def test_a_folder_across_the_border_of_a_range_is_not_compacted() -> None:
    assert list(ranges([Folder(0, 3, RUN), *singles(4, 5)], 3, LATER)) == []
    assert list(ranges([Folder(0, 0, RUN), Folder(2, 3, RUN)], 3, LATER)) == []


def removed(files: LocalFiles, now_ms: int) -> tuple[str, ...]:
    return compact(None, begin(files, "_compactions"), now_ms=now_ms, size=4).removed  # type: ignore[arg-type]


def test_replaced_folders_are_removed_after_an_hour_and_not_before(files: LocalFiles) -> None:
    for n in range(4):
        files.batch(f"batch={n}.{RUN}", marked_ms=1000)
    files.batch(f"batch=0-3.{LATER}", marked_ms=5000)
    assert removed(files, now_ms=HOUR + 4999) == ()
    assert removed(files, now_ms=HOUR + 5000) == tuple(f"batch={n}.{RUN}" for n in range(4))
    assert set(files.folders()) == {f"batch=0-3.{LATER}", "_compactions"}


def test_leftovers_of_a_crash_are_removed_once_another_folder_has_their_batches(files: LocalFiles) -> None:
    files.batch(f"batch=0.{RUN}", marked_ms=None)
    files.batch(f"batch=0.{LATER}", marked_ms=5000)
    files.batch(f"batch=1.{RUN}", marked_ms=None)  # a repeating run may still write it
    files.batch(f"batch=0-3.{LATER}", marked_ms=None)
    assert removed(files, now_ms=HOUR + 5000) == (f"batch=0.{RUN}",)


def test_the_second_folder_of_a_batch_is_removed_and_the_first_stays(files: LocalFiles) -> None:
    files.batch(f"batch=0.{RUN}", marked_ms=1000)
    files.batch(f"batch=0.{LATER}", marked_ms=2000)
    assert removed(files, now_ms=HOUR + 2000) == (f"batch=0.{LATER}",)


def test_a_range_of_one_batch_is_refused(files: LocalFiles) -> None:
    with pytest.raises(PipelineError, match="two batches or more"):
        compact(None, begin(files, "_compactions"), now_ms=0, size=1)  # type: ignore[arg-type]
