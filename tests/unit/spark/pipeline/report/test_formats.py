"""The format of figures and external texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interlock.spark.pipeline.report import formats
from interlock.spark.pipeline.report.formats import distinct


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "–"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1.00 s"),
        (1259, "1.25 s"),
        (59_999, "59.9 s"),
        (60_000, "1 min"),
        (200_000, "3 min 20 s"),
        (3_599_999, "59 min 59 s"),
        (7_500_000, "2 h 5 min"),
        (86_400_000, "1 d"),
        (90_000_000, "1 d 1 h"),
        (-1500, "−1.50 s"),
    ],
)
def test_a_duration_has_one_or_two_units(ms: int | None, text: str) -> None:
    assert formats.duration(ms) == text


def test_a_time_outside_the_calendar_is_shown_in_milliseconds() -> None:
    assert formats.moment(1_795_500_000_000) == "2026-11-24 06:00:00"
    assert formats.moment(2**62) == f"{2**62} ms"
    assert formats.moment(-1) == "-1 ms"


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**41, "2.0 TiB")]
)
def test_a_size_has_a_unit(count: int, text: str) -> None:
    assert formats.size(count) == text


def test_unprintable_characters_are_replaced_and_a_long_text_keeps_both_ends() -> None:
    assert formats.printable("a\x00b\u202ec\nd") == "a\ufffdb\ufffdc\ufffdd"
    text = formats.printable("begin" + "x" * 500 + "end", 21)
    assert len(text) == 21
    assert text.startswith("begin")
    assert text.endswith("end")
    assert "…" in text


@pytest.mark.parametrize(
    ("waiter", "dag", "task", "text"),
    [
        ("wait", "daily", "ready", "daily.ready"),
        ("dispatch", "settle", None, "settle (dispatch)"),
        ("asset watcher", "trades", None, "trades (asset watcher)"),
        ("other", "my-own", None, "my-own"),
    ],
)
def test_a_waiter_has_the_names_of_airflow(waiter: str, dag: str, task: str | None, text: str) -> None:
    assert formats.who(waiter, dag, task) == text


LONG = "(event(type='com.example.orders.done', by='date') & event(type='com.example.rates')).within('{}h')"


@pytest.mark.parametrize(
    "labels",
    [
        ["a", "b"],
        [LONG.format(1), LONG.format(2), LONG.format(24)],
        ["x" * 30 + str(n) + "y" * 200 for n in range(9)],
        ["interlock.airflow.dag_run." + "z" * 60 + f".{n}.failed.and.more.of.it" for n in range(3)],
        ["\u202ea", "\u202ba", "\u200ba"],
    ],
    ids=["short", "end", "middle", "types", "unprintable"],
)
def test_different_labels_stay_different_when_they_are_cut(labels: list[str]) -> None:
    """Regression: labels were cut to identical texts."""
    texts = distinct(labels, 44)
    assert len(set(texts)) == len(labels)
    assert max(map(len, texts)) <= 44


@given(st.lists(st.text(st.sampled_from("ab\u202e"), max_size=60), max_size=8), st.integers(12, 50))
def test_equal_labels_and_only_those_have_equal_texts(labels: list[str], most: int) -> None:
    texts = distinct(labels, most)
    assert len(texts) == len(labels)
    assert len(set(zip(labels, texts, strict=True))) == len(set(labels)) == len(set(texts))
