"""A real headless browser: Debian's packages chromium and chromium-driver."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service


@contextmanager
def chromium(profile: Path) -> Iterator[Chrome]:
    """A browser of 1,280 by 900 pixels that keeps its console's messages. profile: a folder of its own."""
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.fail("no chromium and chromedriver on PATH: on Debian, apt install chromium chromium-driver")
    options = ChromeOptions()
    options.binary_location = binary
    for argument in (
        "headless",
        "no-sandbox",
        "disable-gpu",
        "disable-quic",
        "no-first-run",
        "no-proxy-server",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
        "hide-scrollbars",
        "window-size=1280,900",
        f"user-data-dir={profile}",
    ):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    running = Chrome(options=options, service=Service(driver))
    try:
        yield running
    finally:
        running.quit()
