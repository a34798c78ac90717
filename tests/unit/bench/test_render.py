"""docs/understand/benchmarks.md: tables and pictures of results, made by a command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bench.cells import digits
from bench.lines import place
from bench.questions import QUESTIONS
from bench.render import DOCS, HEAD, render
from bench.results import merge, read


def line(**more: Any) -> dict[str, Any]:
    taken = {"commit": "abc1234", "versions": {"python": "3.11.7"}, "cores": 2}
    return {
        "question": "q",
        "figure": 1.0,
        "unit": "us",
        "ratio": None,
        "aim": None,
        "met": None,
        **taken,
        **more,
    }


def test_each_question_has_its_command_above_a_table_of_what_it_answered(tmp_path: Path) -> None:
    lines = [
        line(
            name="hooks",
            question="a job",
            figure=2.151,
            unit="s",
            ratio=0.989,
            aim=1.03,
            met=True,
            bound="ratio at most",
            lowest=2.0,
            highest=2.5,
        ),
        line(
            name="throughput",
            question="raw",
            figure=81234.5,
            unit="events/s",
            aim=1.3,
            met=False,
            bound="ratio at least",
            ratio=0.7,
            files="in memory",
            processor="Some Model",
            memory_gib=24,
        ),
        line(
            name="latency",
            question="late",
            figure=56.7,
            unit="ms",
            ratio=1.04,
            aim=15,
            met=False,
            bound="figure at most",
        ),
        line(name="gone"),
    ]
    render(lines, tmp_path)
    page = (tmp_path / "benchmarks.md").read_text()
    assert page.startswith(HEAD)
    first, second = page.index("make bench ONLY=throughput"), page.index("make bench ONLY=hooks")
    assert first < page.index("| raw | 81,234 | events/s | 0.7 | ratio at least 1.3: missed |") < second
    assert second < page.index("| a job | 2.15 (2 to 2.5) | s | 0.989 | ratio at most 1.03: met |")
    assert "| late | 56.7 | ms | 1.04 | figure at most 15: missed |" in page
    assert "At abc1234, 2 cores of Some Model, 24 GiB, the broker's files in memory; python 3.11.7." in page
    assert "Ratios are to the quicker raw client loop" in page
    assert "gone" not in page


def test_what_has_sizes_is_a_picture_and_the_same_figures_are_the_same_file(tmp_path: Path) -> None:
    lines = [
        line(name="recovery", curve="an open key", size=size, cost=cost, cost_unit="us/key")
        for size, cost in ((1000, 20.0), (1_000_000, 6.5))
    ]
    pictures = []
    for _ in range(2):
        render(lines, tmp_path)
        [picture] = (tmp_path / "benchmarks").iterdir()
        assert (
            f"![µs/key against open keys: an open key](benchmarks/{picture.name})"
            in (tmp_path / "benchmarks.md").read_text()
        )
        pictures.append(picture.read_text())
    assert pictures[0] == pictures[1]
    ElementTree.fromstring(pictures[0])
    assert "an open key" in pictures[0]


def test_kinds_are_the_rows_of_a_table_for_each_figure_and_what_is_not_there_is_told(tmp_path: Path) -> None:
    told = [("p50, in ms", "a", 1, 50.0), ("p50, in ms", "a", 20, 51.0), ("p50, in ms", "b", 1, 0.5)]
    told.append(("not met", "b", 20, 3.0))
    render(
        [
            line(name="peers", question="q", figure=figure, **place(table, row, f"{size} waits"))
            for table, row, size, figure in told
        ],
        tmp_path,
    )
    page = (tmp_path / "benchmarks.md").read_text()
    assert "| p50, in ms | 1 waits | 20 waits |\n|---|---:|---:|\n| a | 50 | 51 |\n| b | 0.5 | – |\n" in page
    assert "| not met | 20 waits |\n|---|---:|\n| b | 3 |\n" in page
    assert "| question |" not in page


def test_pictures_of_before_go(tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "old.svg").write_text("")
    render([line(name="hooks")], tmp_path)
    assert list((tmp_path / "benchmarks").iterdir()) == []


@pytest.mark.parametrize(
    ("value", "text"), [(81234.5, "81,234"), (0.98765, "0.988"), (12.345, "12.3"), (0.0, "0")]
)
def test_numbers_have_as_many_digits_as_a_reader_compares(value: float, text: str) -> None:
    assert digits(value) == text


def test_later_answers_replace_those_that_were_kept_of_the_same_questions_alone(tmp_path: Path) -> None:
    results, kept = tmp_path / "results.jsonl", tmp_path / "kept.jsonl"
    earlier, later = {"time": "2026-11-20T10:00:00+00:00"}, {"time": "2026-11-20T11:00:00+00:00"}

    def write(path: Path, *lines: dict[str, Any]) -> None:
        path.write_text("".join(json.dumps(each) + "\n" for each in lines))

    def figures() -> dict[str, float]:
        merge(results, kept)
        return {each["name"]: each["figure"] for each in read(kept)}

    write(kept, line(name="hooks", figure=1.0), line(name="emit", figure=1.0, **earlier))
    write(results, line(name="emit", figure=2.0, **later))
    assert figures() == {"hooks": 1.0, "emit": 2.0}
    results.unlink()
    assert figures() == {"hooks": 1.0, "emit": 2.0}
    write(results, line(name="emit", figure=3.0, **earlier), line(name="hooks", figure=3.0))
    assert figures() == {"hooks": 1.0, "emit": 2.0}


def test_the_page_and_its_pictures_are_what_the_kept_results_make(tmp_path: Path) -> None:
    kept = [json.loads(text) for text in (DOCS / "benchmarks" / "results.jsonl").read_text().splitlines()]
    render(kept, tmp_path)
    assert (tmp_path / "benchmarks.md").read_text() == (DOCS / "benchmarks.md").read_text()
    made = {picture.name: picture.read_text() for picture in (tmp_path / "benchmarks").glob("*.svg")}
    assert made == {picture.name: picture.read_text() for picture in (DOCS / "benchmarks").glob("*.svg")}


def test_what_a_ratio_is_to_is_told_of_each_question_that_has_one() -> None:
    kept = [json.loads(text) for text in (DOCS / "benchmarks" / "results.jsonl").read_text().splitlines()]
    with_ratio = {each["name"] for each in kept if each["ratio"] is not None}
    assert [name for name in with_ratio if not QUESTIONS[name].ratio] == []


def test_the_page_has_every_question_and_its_pictures() -> None:
    page = (DOCS / "benchmarks.md").read_text()
    missing = [
        n for n, each in QUESTIONS.items() if not each.by_name and f"make bench ONLY={n}\n" not in page
    ]
    assert missing == []
    pictures = [picture.name for picture in (DOCS / "benchmarks").glob("*.svg")]
    assert [name for name in pictures if f"benchmarks/{name})" not in page] == []
    assert page.count(".svg)") == len(pictures)
