"""The valid folders: every batch is in exactly one, at each moment of writing and compacting."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from interlock.spark.pipeline import PipelineError
from interlock.spark.pipeline.archive.compaction import ranges
from interlock.spark.pipeline.archive.layout import (
    Folder,
    check_exists,
    folder_named,
    folder_of_batch,
    folders,
    read_folders,
    valid_folders,
)
from interlock.spark.pipeline.session import configure

from .conftest import LocalFiles

RUN, LATER = "00000001-0000000a", "00000002-0000000b"


class Reader:
    """Spark's reader: keeps its options."""

    def __init__(self) -> None:
        self.given: dict[str, str] = {}

    def schema(self, _schema: object) -> Reader:
        return self

    def option(self, name: str, value: str) -> Reader:
        return self.options(**{name: value})

    def options(self, **given: str) -> Reader:
        self.given |= given
        return self

    def parquet(self, *_paths: str) -> Reader:
        return self

    def select(self, *_columns: str) -> Reader:
        return self


class Session:
    """A session whose cluster ignores files that it cannot read."""

    def __init__(self) -> None:
        self.read = Reader()
        self.settings = {f"spark.sql.files.ignore{each}Files": "true" for each in ("Corrupt", "Missing")}
        self.conf = self

    def set(self, name: str, value: str) -> None:
        self.settings[name] = value


def test_no_rows_are_left_out_where_the_cluster_ignores_files_that_it_cannot_read(files: LocalFiles) -> None:
    """apache/spark#38024: a lost connection counts as a corrupt file. A compaction would then write a folder
    without these rows, and remove the folders that have them."""
    session: Any = Session()
    read_folders(session, files, [Folder(0, 0, RUN)])
    assert {session.read.given.get(f"ignore{each}Files") for each in ("Corrupt", "Missing")} == {"false"}
    configure(session)
    assert {session.settings[f"spark.sql.files.ignore{each}Files"] for each in ("Corrupt", "Missing")} == {
        "false"
    }


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        (f"batch=7.{RUN}", Folder(7, 7, RUN)),
        (f"batch=0-255.{LATER}", Folder(0, 255, LATER)),
        ("batch=7", Folder(7, 7, "")),
        ("batch=7.tmp", None),
        ("_checkpoint", None),
        ("batch=", None),
    ],
)
def test_the_name_of_a_folder_has_the_batches_it_holds(name: str, folder: Folder | None) -> None:
    assert folder_named(name) == folder
    assert folder is None or folder.name == name


def test_the_folder_of_a_range_replaces_those_of_its_batches() -> None:
    single = [Folder(n, n, RUN) for n in range(6)]
    assert valid_folders([*single, Folder(0, 3, LATER)]) == (Folder(0, 3, LATER), *single[4:])


def test_the_folder_of_the_earlier_run_is_valid_when_two_hold_a_batch() -> None:
    assert valid_folders([Folder(0, 0, LATER), Folder(0, 0, RUN)]) == (Folder(0, 0, RUN),)
    assert valid_folders([Folder(0, 3, LATER), Folder(0, 3, RUN)]) == (Folder(0, 3, RUN),)


def test_folders_that_overlap_in_part_are_an_error_that_names_them() -> None:
    with pytest.raises(PipelineError, match=r"batch=0-3.*batch=2-5"):
        valid_folders([Folder(0, 3, RUN), Folder(2, 5, RUN)])


def test_a_folder_without_a_marker_is_not_valid(files: LocalFiles) -> None:
    files.batch(f"batch=0.{RUN}")
    files.batch(f"batch=1.{RUN}", marked_ms=None)
    assert folders(files) == ((Folder(0, 0, RUN),), (Folder(1, 1, RUN),))
    assert folder_of_batch(files, 0) == f"batch=0.{RUN}"
    assert folder_of_batch(files, 1) is None
    files.batch(f"batch=0-3.{LATER}")
    assert folder_of_batch(files, 2) == f"batch=0-3.{LATER}"


def test_a_folder_without_an_archive_is_an_error_that_names_it(files: LocalFiles) -> None:
    files.write("other/file", "")
    with pytest.raises(PipelineError, match=f"no archive in {files.root}"):
        check_exists(files)
    files.batch("batch=0", marked_ms=None)
    check_exists(files)


class Archive(RuleBasedStateMachine):
    """Writers, sometimes two at once, and compactions of several sizes; each may stop at any step."""

    def __init__(self) -> None:
        super().__init__()
        self.complete: set[Folder] = set()
        self.next, self.runs = 0, 1
        self.compactions: list[tuple[Folder, tuple[Folder, ...]]] = []

    @initialize(count=st.integers(0, 9))
    def archived(self, count: int) -> None:
        for _ in range(count):
            self.write(again=False)

    @rule(again=st.booleans())
    def write(self, again: bool) -> None:
        """The next batch; `again`: the last one once more, by another run."""
        self.runs += 1
        if again and self.next:
            self.next -= 1
        self.complete.add(Folder(self.next, self.next, self._run()))
        self.next += 1

    @rule(size=st.sampled_from([2, 4, 8]))
    def compact(self, size: int) -> None:
        self.runs += 1
        self.compactions += list(ranges(valid_folders(self.complete), size, self._run()))

    @rule(which=st.integers(0, 9))
    def mark(self, which: int) -> None:
        if which < len(self.compactions):
            target, sources = self.compactions.pop(which)
            rows = [n for each in sources for n in range(each.first, each.last + 1)]
            assert rows == list(range(target.first, target.last + 1))
            self.complete.add(target)

    @rule(which=st.integers(0, 9))
    def remove_one_that_was_replaced(self, which: int) -> None:
        valid = valid_folders(self.complete)
        replaced = sorted(self.complete - set(valid), key=lambda each: each.name)
        if which < len(replaced) and any(holder.holds(replaced[which]) for holder in valid):
            self.complete.discard(replaced[which])

    @invariant()
    def each_batch_counts_once(self) -> None:
        valid = [n for each in valid_folders(self.complete) for n in range(each.first, each.last + 1)]
        assert valid == list(range(self.next))

    def _run(self) -> str:
        return f"{self.runs:08d}-0000000a"


Archive.TestCase.settings = settings(max_examples=100, stateful_step_count=40)
TestEachBatchCountsOnceAtEachMoment = Archive.TestCase
