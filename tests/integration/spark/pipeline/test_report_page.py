"""The report's page in a real headless browser: Debian's chromium and chromium-driver."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from interlock.spark.pipeline.report.page import render
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from tests.kit.chromium import chromium
from tests.unit.spark.pipeline.report.samples import HOSTILE, NOW_MS, figures

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
LONG = "com.example." + "verylongname" * 40
# Those of WCAG 2.1 AA, for text of ordinary size.
LEAST_CONTRAST = 4.5

# Visible texts, [text, colour, background colour].
TEXTS = """
const found = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode, text = node.data.trim(), parent = node.parentElement;
  if (!text || parent.closest('title, desc, style')) continue;
  const style = getComputedStyle(parent);
  let behind = parent;
  while (getComputedStyle(behind).backgroundColor === 'rgba(0, 0, 0, 0)') behind = behind.parentElement;
  const ground = getComputedStyle(behind).backgroundColor;
  found.push([text, parent.closest('svg') ? style.fill : style.color, ground]);
}
return found;
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with chromium(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture(scope="module")
def opened(browser: Chrome, tmp_path_factory: pytest.TempPathFactory) -> Chrome:
    """At 1,280 px, with a page of invented figures and hostile external texts."""
    return show(browser, tmp_path_factory.mktemp("page"), HOSTILE)


def show(browser: Chrome, folder: Path, text: str) -> Chrome:
    page = folder / "report.html"
    page.write_text(render(figures(text), HOSTILE, NOW_MS), encoding="utf-8")
    size = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(page.as_uri())
    return browser


def test_the_browser_logs_no_errors(opened: Chrome) -> None:
    assert [entry["message"] for entry in opened.get_log("browser")] == []


def test_every_section_is_shown_with_its_chart_and_table(opened: Chrome) -> None:
    assert tuple(head.text for head in opened.find_elements(By.TAG_NAME, "h2")) == SECTIONS
    for section in opened.find_elements(By.TAG_NAME, "section"):
        chart = section.find_element(By.TAG_NAME, "svg")
        assert chart.size["width"] > 1000
        assert chart.size["height"] > 60
        # it has drawn more than its background
        shapes = chart.find_elements(By.CSS_SELECTOR, "path, use")
        assert sum(shape.size["width"] * shape.size["height"] > 0 for shape in shapes) > 2
        table = section.find_element(By.TAG_NAME, "table")
        assert table.is_displayed()
        assert table.find_element(By.CSS_SELECTOR, "tbody tr").text


def test_the_page_is_no_wider_than_1280_pixels(opened: Chrome) -> None:
    assert opened.execute_script("return window.innerWidth") == 1280
    assert opened.execute_script("return document.documentElement.scrollWidth") <= 1280
    # no table or chart needs scrolling
    wider = (
        "return [...document.querySelectorAll('.table')].filter(e => e.scrollWidth > e.clientWidth).length"
    )
    assert opened.execute_script(wider) == 0


def test_texts_of_a_chart_are_inside_it(opened: Chrome) -> None:
    outside = """
    return [...document.querySelectorAll('svg text')].filter(text => {
      const chart = text.closest('svg').getBoundingClientRect(), box = text.getBoundingClientRect();
      return box.left < chart.left - 1 || box.right > chart.right + 1 || box.bottom > chart.bottom + 1;
    }).map(text => text.textContent)
    """
    assert opened.execute_script(outside) == []


def test_text_is_large_enough_to_read(opened: Chrome) -> None:
    smallest = """
    const texts = document.querySelectorAll('p, td, th, dt, dd, caption, figcaption, svg text');
    return Math.min(...[...texts].map(e => {
      const size = parseFloat(getComputedStyle(e).fontSize), chart = e.closest('svg');
      return chart ? size * chart.clientWidth / chart.viewBox.baseVal.width : size;
    }))
    """
    assert opened.execute_script(smallest) >= 12


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(opened: Chrome, scheme: str) -> None:
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    texts: list[list[str]] = opened.execute_script(TEXTS)
    assert len(texts) > 300
    grounds = {luminance(ground) for _, _, ground in texts}
    assert (min(grounds) > 0.8) if scheme == "light" else (max(grounds) < 0.05)
    assert [each for each in texts if contrast(each[1], each[2]) < LEAST_CONTRAST] == []


def test_external_texts_are_shown_literally_and_run_no_script(opened: Chrome) -> None:
    assert not opened.find_elements(By.TAG_NAME, "script")
    cells, texts = (
        opened.execute_script(f"return [...document.querySelectorAll('{which}')].map(e => e.textContent)")
        for which in ("td, th", "svg text")
    )
    assert sum(HOSTILE in text for text in cells) > 8
    assert sum(HOSTILE in text for text in texts) > 2


def test_long_names_do_not_make_it_wider(browser: Chrome, tmp_path: Path) -> None:
    show(browser, tmp_path, LONG)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 1280
    assert browser.get_log("browser") == []


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG defines it, of rgb(r, g, b)."""
    channels = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(", ")]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return float(sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True)))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
