"""Whether a checkpoint and an archive belong together; missing parts are errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from interlock.spark.pipeline import PipelineError
from interlock.spark.pipeline.archive.checkpoint import check_batches, check_pair, check_topics
from interlock.spark.pipeline.archive.layout import IDENTITY

from .conftest import LocalFiles

RUN = "00000001-0000000a"


def archived(files: LocalFiles, checkpoint: LocalFiles, done: int, planned: int | None = None) -> None:
    """As if batches up to `done` were archived."""
    check_pair(files, checkpoint, "orders")
    for n in range(done + 1):
        files.batch(f"batch={n}.{RUN}")
        checkpoint.write(f"commits/{n}", "v1")
    for n in range((done if planned is None else planned) + 1):
        checkpoint.write(f"offsets/{n}", "v1")
        checkpoint.write(f"offsets/.{n}.crc", "")


def test_a_new_archive_and_a_restart_after_each_step_of_the_first_start_are_taken(
    files: LocalFiles, checkpoint: LocalFiles
) -> None:
    check_pair(files, checkpoint, "orders")
    check_pair(files, checkpoint, "orders")
    checkpoint.remove("archive.json")
    check_pair(files, checkpoint, "orders")
    files.write(IDENTITY, "")  # killed while it was written
    checkpoint.remove("archive.json")
    check_pair(files, checkpoint, "orders")
    check_batches(files, checkpoint)


@pytest.mark.parametrize(("done", "planned"), [(3, 3), (3, 4)])
def test_an_archive_with_its_checkpoint_is_taken(
    files: LocalFiles, checkpoint: LocalFiles, done: int, planned: int
) -> None:
    archived(files, checkpoint, done, planned)
    check_pair(files, checkpoint, "orders")
    check_batches(files, checkpoint)
    files.batch(f"batch=4.{RUN}")  # killed before the checkpoint recorded it as done
    if planned == 4:
        check_batches(files, checkpoint)


def test_a_compacted_archive_with_its_checkpoint_is_taken(files: LocalFiles, checkpoint: LocalFiles) -> None:
    archived(files, checkpoint, 5)
    for n in range(4):
        files.remove(f"batch={n}.{RUN}")
    files.batch(f"batch=0-3.{RUN}")
    check_batches(files, checkpoint)


@pytest.mark.parametrize(
    ("lost", "named"),
    [
        (("archive", ""), r"archive in .* is missing.*Restore the archive"),
        (("archive", IDENTITY), f"no {IDENTITY}"),
        (("checkpoint", ""), r"not the checkpoint of the archive.*twice"),
    ],
    ids=["the archive", "the archive's id", "the checkpoint"],
)
def test_a_missing_part_is_an_error(
    files: LocalFiles, checkpoint: LocalFiles, lost: tuple[str, str], named: str
) -> None:
    archived(files, checkpoint, 3)
    place, name = lost
    (files if place == "archive" else checkpoint).remove(name)
    with pytest.raises(PipelineError, match=named):
        check_pair(files, checkpoint, "orders")


def test_a_checkpoint_with_only_its_id_is_an_error(files: LocalFiles, checkpoint: LocalFiles) -> None:
    archived(files, checkpoint, 3)
    checkpoint.remove("offsets")
    checkpoint.remove("commits")
    check_pair(files, checkpoint, "orders")
    with pytest.raises(PipelineError, match=r"has batch 3.* knows none"):
        check_batches(files, checkpoint)


def test_an_older_checkpoint_is_an_error(files: LocalFiles, checkpoint: LocalFiles) -> None:
    archived(files, checkpoint, 3)
    checkpoint.remove("offsets/3")
    with pytest.raises(PipelineError, match=r"has batch 3.* knows 2 as the last"):
        check_batches(files, checkpoint)


@pytest.mark.parametrize(
    ("gone", "named"), [((0,), "batch 0,"), ((1, 2), "batches 1 to 2"), ((3,), "batch 3"), ((2, 3), "2 to 3")]
)
def test_missing_batches_are_an_error_unless_accepted(
    files: LocalFiles, checkpoint: LocalFiles, gone: tuple[int, ...], named: str
) -> None:
    archived(files, checkpoint, 3)
    for n in gone:
        files.remove(f"batch={n}.{RUN}")
    with pytest.raises(PipelineError, match=f"lacks .*{named}.*--accept-loss"):
        check_batches(files, checkpoint)
    check_batches(files, checkpoint, accept_loss=True)


def test_the_checkpoint_of_another_archive_is_an_error(
    files: LocalFiles, checkpoint: LocalFiles, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = LocalFiles(tmp_path_factory.mktemp("other"))
    check_pair(files, LocalFiles(tmp_path_factory.mktemp("its")), "orders")
    check_pair(other, checkpoint, "orders")
    with pytest.raises(PipelineError, match="of another archive"):
        check_pair(files, checkpoint, "orders")


@pytest.mark.parametrize("is_new", [True, False])
def test_the_checkpoint_of_another_query_is_an_error(
    files: LocalFiles, checkpoint: LocalFiles, is_new: bool
) -> None:
    if not is_new:
        check_pair(files, LocalFiles(Path(checkpoint.root + "-other")), "orders")
    checkpoint.write("offsets/0", "v1")
    with pytest.raises(PipelineError, match="would"):
        check_pair(files, checkpoint, "orders")


def test_topics_that_were_created_again_are_an_error_unless_accepted(files: LocalFiles) -> None:
    """Spark compares offsets only: it went on at the old offset if the new topics were longer."""
    check_topics(files, {"orders-event": "a"})
    check_topics(files, {"orders-event": "a", "orders-action": "b"})
    new = {"orders-event": "c", "orders-action": "b"}
    with pytest.raises(PipelineError, match=r"created again since: orders-event\. .*--accept-loss"):
        check_topics(files, new)
    check_topics(files, {"orders-action": "b"})
    check_topics(files, new, accept_loss=True)
    check_topics(files, new)


def test_another_bus_is_an_error(files: LocalFiles, checkpoint: LocalFiles) -> None:
    check_pair(files, checkpoint, "orders")
    with pytest.raises(PipelineError, match=r"bus 'orders'.*bus 'rates'"):
        check_pair(files, checkpoint, "rates")
