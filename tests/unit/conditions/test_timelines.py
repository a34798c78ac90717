"""`step` does what every timeline of docs/use/conditions.md shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .timeline import NotUnderstood, at, numbered, parsed, timeline

PAGE = (Path(__file__).parents[3] / "docs" / "use" / "conditions.md").read_text()
CASES = re.findall(r"^\| ([A-Z]\d+) \|", PAGE, re.MULTILINE)
LINES = [line.partition(" ") for _, line in numbered(PAGE)]


@pytest.mark.parametrize(
    "text", [pytest.param(rest, id=f"{case}-{number}") for number, (case, _, rest) in enumerate(LINES)]
)
def test_step_does_what_a_timeline_of_the_page_shows(text: str) -> None:
    timeline(text.strip())


def test_every_timeline_belongs_to_a_case_of_the_page() -> None:
    assert {case for case, _, _ in LINES} <= set(CASES)
    assert len(LINES) >= 30


def test_no_case_is_written_down_twice() -> None:
    assert len(CASES) == len(set(CASES)) > 100


@pytest.mark.parametrize(
    "text",
    [
        "a & b   a1  b1 ! a1 b1   {}",
        "a & b:   a1  b1 ! a1 b1",
        "a & b:   a1 b1 ! a1 b1   {}",
        "a & b:   a1(soon)   {a1}",
        "a & b:   a1(0:00, perhaps)   {a1}",
        "a & b:   a1  a1(0:10)   {a1}",
        "a & b:   a1  tock(0:10)   {a1}",
        "a & b:   a1  tick(0:10, 0:20)   {a1}",
        "a & b:   opened(0:10, until 0:20)   {}",
        "a & b:   c1   {}",
        "a & b:   e1 (accepted by c)   {}",
        "a & b & c:   e1 (accepted by both)   {e1}",
        "a & b:   ! a1   {}",
        "a & b:   a1  b1 !   {}",
        "a & b:   a1  b1 ! a1, b1   {}",
        "a & b:   a1  b1 ! a1 b1 at noon   {}",
        "a & b:   a1   {a1, b1}",
    ],
)
def test_a_line_that_is_no_timeline_is_not_passed_over(text: str) -> None:
    with pytest.raises(NotUnderstood):
        parsed(text)


@pytest.mark.parametrize(
    "text",
    [
        "a & b:   a1  b1   {}",
        "a & b:   a1  b1   {a1 b1}",
        "a & b:   a1  b1 ! a1   {}",
        "a & b:   a1  b1 ! b1 a1   {}",
        "a & b:   a1  b1 ! a1 b1 as a c   {}",
        "a & b:   a1  b1 ! expired a1 b1   {}",
        "a & b:   a1  b1 ! a1 b1, missing a   {}",
        "a & b:   a1  b1 ! a1 b1 at 0:00   {}",
        "a & b:   a1  b1 ! a1 b1 ! a1 b1   {}",
        "a & b:   a1 ! a1  b1   {b1}",
        "a & b:   a1  b1 ! a1 b1   {a1}",
        "a & b:   a1(waits)   {a1}",
        '(a & b).expires(after="1h"):   a1(0:00)  b1(1:00)   {a1 b1}',
        '(a & b).expires(after="1h"):   a1(0:00)  tick(1:00) ! expired a1   {}',
        '(a & b).expires(after="1h"):   a1(0:00)  tick(1:00) ! expired a1, missing b at 1:01   {}',
    ],
)
def test_a_timeline_that_says_something_else_fails(text: str) -> None:
    with pytest.raises(AssertionError):
        timeline(text)


def test_times_are_of_a_monday_in_utc() -> None:
    assert f"{at('0:10'):%a %H:%M %Z}" == "Mon 00:10 UTC"
    assert f"{at('Tue 1:00:02.003'):%a %H:%M:%S.%f}" == "Tue 01:00:02.003000"
    assert f"{at('t=7'):%a %S}" == "Mon 07"
