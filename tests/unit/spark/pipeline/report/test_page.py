"""The page as text: self-contained, with external texts escaped."""

from __future__ import annotations

import re
import sys
from datetime import date
from html.parser import HTMLParser

import pytest
from interlock.spark.pipeline.report import ReportError, charts
from interlock.spark.pipeline.report.figures import Figures
from interlock.spark.pipeline.report.page import check_can_draw, render

from tests.unit.spark.pipeline.report.samples import HOSTILE, NOW_MS, figures

SECTIONS = (
    "Latencies by DAG",
    "Latencies by condition",
    "Latencies by event type",
    "Waits that expired",
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
    assert len(outline.named("section")) == len(outline.named("svg")) == len(outline.named("table")) == 8


def test_each_chart_has_a_title_and_a_description(page: str, outline: Outline) -> None:
    ids = {attributes.get("id") for _, attributes in outline.elements}
    for svg in outline.named("svg"):
        assert svg["role"] == "img"
        assert set(str(svg["aria-labelledby"]).split()) <= ids
    assert len(outline.named("figcaption")) == 8
    assert page.count("The table below has all figures.") == 8


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
    "text", ["$\\frac{1}{2}$", "a\x00\x1b[31m\u202eb", "漢字 العربية", "#0a0b01 url(#x)", "x" * 5000, "$"]
)
def test_any_text_can_be_drawn(text: str) -> None:
    outline = Outline(render(figures(text), "/data/archive", NOW_MS))
    assert len(outline.named("svg")) == 8


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
