"""The page as text: self-contained, with external texts escaped."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from datetime import UTC, date, datetime
from html.parser import HTMLParser
from typing import Any

import pytest
from interlock.events.plain import TYPE as PLAIN
from interlock.spark.pipeline.report import ReportError, charts
from interlock.spark.pipeline.report.figures import Figures, Table
from interlock.spark.pipeline.report.formats import LAST_MS
from interlock.spark.pipeline.report.page import check_can_draw, render
from interlock.spark.pipeline.report.tables import step_of

from tests.unit.spark.pipeline.report.samples import HOSTILE, NOW_MS, figures, place

HOUR_MS = 3_600_000
SECTIONS = (
    "Latencies by DAG",
    "Latencies by condition",
    "Latencies by event type",
    "Waits that expired",
    "What expired waits lacked",
    "Firings not acknowledged yet",
    "Slowest producers",
    "Event types nobody waits for",
    "Events per day and type",
)


class Outline(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page.replace("<wbr>", ""))  # <wbr> is within texts

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def page() -> str:
    return render(figures(), HOSTILE, NOW_MS)  # the archive's path is external text too


@pytest.fixture(scope="module")
def outline(page: str) -> Outline:
    return Outline(page)


def test_each_section_has_a_chart_and_its_table(outline: Outline) -> None:
    assert [text for text in outline.texts if text in SECTIONS and outline.texts.count(text) > 1][
        : len(SECTIONS)
    ]
    assert len(outline.named("section")) == len(outline.named("svg")) == len(outline.named("table")) == 9


def test_each_chart_has_a_title_and_a_description(page: str, outline: Outline) -> None:
    ids = {attributes.get("id") for _, attributes in outline.elements}
    for svg in outline.named("svg"):
        assert svg["role"] == "img"
        assert set(str(svg["aria-labelledby"]).split()) <= ids
    assert len(outline.named("figcaption")) == 9
    assert page.count("The table below has all figures.") == 9


def test_ids_are_unique(outline: Outline) -> None:
    ids = [attributes["id"] for _, attributes in outline.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_external_texts_are_escaped_everywhere(page: str, outline: Outline) -> None:
    assert not outline.named("script")
    assert HOSTILE not in page
    # in the tables, in the charts, and in descriptions of the charts
    whole = [text for text in outline.texts if HOSTILE in text]
    assert len(whole) > 8
    assert not [name for _, attributes in outline.elements for name in attributes if name.startswith("on")]


@pytest.mark.parametrize(
    "text",
    [
        "$\\frac{1}{2}$",
        "a\x00\x1b[31m\u202eb 漢字 العربية #0a0b01 url(#x)",
        *(pytest.param(text, marks=pytest.mark.long) for text in ("x" * 5000, "$")),
    ],
)
def test_any_text_can_be_drawn(text: str) -> None:
    outline = Outline(render(figures(text), "/data/archive", NOW_MS))
    assert len(outline.named("svg")) == 9


def test_nothing_is_loaded_from_anywhere(page: str, outline: Outline) -> None:
    for tag, attributes in outline.elements:
        for name in ("src", "href", "xlink:href", "data", "action", "srcset"):
            value = attributes.get(name)
            assert value is None or value.startswith("#") or (tag, value) == ("link", "data:,")
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)
    assert "default-src 'none'" in page


def test_colours_are_the_pages_own(page: str) -> None:
    body = page[page.index("<main>") :]
    assert not re.search(r"(?:fill|stroke): #", body)
    assert "var(--series-1)" in body


def test_rows_that_are_left_out_are_counted(page: str) -> None:
    assert "5 of 57 rows; 52 left out. In full: <code>expired</code>" in page


def test_a_page_without_events_and_firings_says_so() -> None:
    outline = Outline(render(Figures(), "/data/archive", NOW_MS))
    assert "Nothing to report" in outline.texts
    assert not outline.named("table")


def test_a_section_without_rows_says_so_instead_of_an_empty_table() -> None:
    outline = Outline(render(Figures(events=1, types=1), "/data/archive", NOW_MS))
    assert "No wait expired." in outline.texts
    assert "Nothing fired." in outline.texts
    assert not outline.named("table")
    assert not outline.named("svg")


def test_the_error_says_what_to_install_when_matplotlib_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ReportError, match=r"matplotlib, which is not installed on the driver: pip install"):
        check_can_draw()


def test_a_chart_of_nothing_is_none() -> None:
    assert charts.spreads("a", "A", [], {"x": []}) is None
    assert charts.spreads("a", "A", ["l"], {"x": [(None, None, None)]}) is None
    assert charts.bars("a", "A", [], []) is None
    assert charts.stacked("a", "A", [], {}) is None


def test_a_type_that_begins_with_an_underscore_is_in_the_legend() -> None:
    chart = charts.stacked("a", "A", [date(2026, 11, 20)], {"_hidden": [2], "orders": [1]})
    assert chart is not None
    assert "_hidden" in chart.svg


def with_tables(**rows: list[dict[str, Any]]) -> Figures:
    found = figures("x")
    tables = {name: Table(name, tuple(each), len(each)) for name, each in rows.items()}
    return replace(found, tables={**found.tables, **tables})


def test_plain_topics_are_distinguished_in_tables_and_charts() -> None:
    """Regression: all plain topics were one type in the charts."""
    day = date(2026, 11, 20)
    plain = {"type": PLAIN, "events": 5, "first_ms": 0, "last_ms": 1}
    made = with_tables(
        types=[{**plain, "topic": "orders"}, {**plain, "topic": "users"}],
        days=[{"date": day, "events": 10, "bytes": 1}],
        volume=[{"date": day, "type": f"topic {name}", "events": 5} for name in ("orders", "users")],
        unwaited_types=[{**plain, "topic": "orders"}, {**plain, "topic": "users"}],
    )
    outline = Outline(render(made, "/data/archive", NOW_MS))
    for name in ("topic orders", "topic users"):
        assert outline.texts.count(name) >= 4  # two tables, a row of a chart and a legend
    assert PLAIN not in outline.texts


def test_conditions_in_the_chart_are_named_by_who_uses_them() -> None:
    """Regression: labels were cut to identical texts."""
    rows = figures("x").table("latencies_by_condition").rows[:1]
    long = "(event(type='com.example.orders.done', by='data.date') & event(type='com.example.rates', by='d'))"
    users = [("daily_report", "ready", "wait", 1), ("settle", None, "dispatch", 3)]
    made = with_tables(
        latencies_by_condition=[
            {**rows[0], **place(dag, task, waiter), "condition": f"{long}.within('{n}h')", "dags": dags}
            for n, (dag, task, waiter, dags) in enumerate(users)
        ]
    )
    outline = Outline(render(made, "/data/archive", NOW_MS))
    for name in ("daily_report.ready", "settle (dispatch) and 2 other DAGs"):
        assert outline.texts.count(name) >= 2  # in the chart and in its table


def test_the_volume_within_a_day_has_an_axis_of_hours_and_minutes() -> None:
    """Regression: no time axis within a day."""
    start = 1_795_500_000_000 - 1_795_500_000_000 % 3_600_000
    moments = [{"start_ms": start + n * 900_000, "type": "a", "events": n + 1} for n in (0, 1, 7)]
    made = replace(with_tables(types=[{"type": "a", "events": 11}], moments=moments), step_ms=900_000)
    outline = Outline(render(made, "/data/archive", NOW_MS))
    assert "Events per 15 min and type" in outline.texts
    first = datetime.fromtimestamp(start / 1000, UTC)
    described = f"8 columns, one for each 15 min, from {first}"
    assert any(text.startswith(described) for text in outline.texts)
    assert {f"{first:%H}:15", f"{first:%H}:45"} <= set(outline.texts)


@pytest.mark.parametrize(
    ("last_ms", "step_ms"),
    [
        (0, 60_000), (71 * 60_000, 60_000), (72 * 60_000, 300_000), (5 * HOUR_MS, 300_000),
        (24 * HOUR_MS, 3_600_000), (3 * 24 * HOUR_MS - 1, 3_600_000), (8 * 24 * HOUR_MS, 3 * HOUR_MS),
        (30 * 24 * HOUR_MS, None), (None, None),
    ],
)  # fmt: skip
def test_the_step_of_the_time_axis_follows_the_range(last_ms: int | None, step_ms: int | None) -> None:
    assert step_of(None if last_ms is None else 0, last_ms) == step_ms


@pytest.mark.parametrize("last_ms", [LAST_MS + 1, 1_795_500_000_000_000])
def test_events_after_the_year_9999_have_a_column_for_each_day(last_ms: int) -> None:
    """Regression: timestamps in microseconds ended the report when it drew hours, which had no date."""
    assert step_of(last_ms - HOUR_MS, last_ms) is None
    assert step_of(LAST_MS - HOUR_MS, LAST_MS) is not None


def test_the_picture_of_expired_waits_shows_which_wait_lacked_what() -> None:
    """Regression: no picture of which wait lacked what."""
    outline = Outline(render(figures("x"), "/data/archive", NOW_MS))
    at = len(outline.texts) - 1 - outline.texts[::-1].index("What expired waits lacked")
    end = outline.texts.index("Firings not acknowledged yet", at)
    drawn = outline.texts[at:end]
    assert {"Expired waits, by what was missing", "daily_report.ready", "rates", "orders"} <= set(drawn)


def test_conditions_without_a_type_are_reported_and_hide_nothing() -> None:
    """Regression: one matcher without a type blinded "types nobody waits for"."""
    page = render(replace(figures("x"), without_type=2), "/data/archive", NOW_MS)
    assert "matchers that name neither a type nor a source, of 2 conditions" in page
