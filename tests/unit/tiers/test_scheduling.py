"""Groups of tests that run in one process, and their order."""

from __future__ import annotations

import pytest

from tests.kit.scheduling import FIRST, GROUPS, group_of, rank_of


@pytest.mark.parametrize(
    ("test", "group"),
    [
        ("integration/triggers/test_asset.py::test_a[x]", "airflow"),
        ("integration/triggers/test_examples.py::test_b", "airflow of the examples"),
        ("integration/spark/pipeline/test_archive.py::test_c", "spark"),
        ("unit/events/test_event.py::test_d[a::b]", "unit/events/test_event.py"),
    ],
)
def test_a_test_runs_with_its_file_or_with_the_group_of_the_longest_path(test: str, group: str) -> None:
    assert group_of(test) == group


def test_what_takes_longest_starts_first() -> None:
    assert rank_of("integration/triggers/test_asset.py::test_a") == 0
    assert rank_of("integration/events/test_emitter.py::test_a") < rank_of("contract/test_facts.py::test_a")
    assert rank_of("unit/events/test_event.py::test_a") == len(FIRST)


def test_processes_take_turns_by_group(request: pytest.FixtureRequest) -> None:
    """A run in several processes uses these groups, whatever scheduler the command line names."""
    hook = request.config.hook
    assert any(
        "conftest" in str(impl.plugin_name) for impl in hook.pytest_xdist_make_scheduler.get_hookimpls()
    )


@pytest.mark.parametrize("path", [*GROUPS, *FIRST])
def test_each_path_exists(path: str, request: pytest.FixtureRequest) -> None:
    assert (request.config.rootpath / path).exists()
