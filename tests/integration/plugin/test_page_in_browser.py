"""The page and the tab in the UI of a real API server, below a path, in Chromium."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from interlock import event
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from local.airflow import LocalAirflow
from tests.integration.engine.conftest import Bench
from tests.kit.chromium import chromium
from tests.kit.page_server import Page, page_server

DAY = "2026-11-20"
ORDERS, RATES = (event(f"com.shop.{name}", by="data.day", label=name) for name in ("orders", "rates"))
DEADLINE_S: Final = 60.0
BELOW: Final = "/team/airflow"  # the path of `base_url`, as behind a proxy
RUN: Final = "manual__2026-11-20T06:00:00+00:00"
TAB: Final = f"/dags/report/runs/{RUN}/tasks/wait/plugin/interlock-wait"
DAG: Final = """
from airflow.sdk import DAG
from interlock import event
from interlock.operators import EventSensor

orders, rates = (event(f"com.shop.{name}", by="data.day", label=name) for name in ("orders", "rates"))
with DAG("report", schedule=None):
    EventSensor(task_id="wait", condition=orders & rates, key="2026-11-20")
"""


class Browser:
    """What somebody sees who looks at Airflow."""

    def __init__(self, chrome: Chrome, page: Page) -> None:
        self.chrome, self._page = chrome, page

    def sign_in(self, user: str) -> None:
        self.chrome.get(f"{self._page.url}/api/v2/version")
        self.chrome.delete_all_cookies()
        self.chrome.add_cookie({"name": "_token", "value": self._page.tokens[user], "path": BELOW})

    def open(self, path: str) -> None:
        self.chrome.get(f"{self._page.url}{path}")

    def sees(self, text: str) -> None:
        """Waits until a text is in what Interlock shows."""
        shown = ""

        def there(_: object) -> bool:
            nonlocal shown
            found = self.chrome.find_elements(By.CSS_SELECTOR, "[data-interlock]")
            shown = " ".join(" ".join(each.text for each in found).split())
            return text in shown

        WebDriverWait(self.chrome, DEADLINE_S, ignored_exceptions=[Exception]).until(
            there, f"{text!r} is not in: {shown}"
        )

    def click(self, text: str, *tags: str) -> None:
        """Clicks a button or link with this text, once it can be."""
        path = " | ".join(f"//{tag}[normalize-space()={text!r}]" for tag in tags or ("button", "a"))

        def clicked(_: object) -> bool:
            self.chrome.find_elements(By.XPATH, path)[-1].click()
            return True

        WebDriverWait(self.chrome, DEADLINE_S, ignored_exceptions=[Exception]).until(clicked, text)

    def faults(self) -> list[str]:
        """The errors in the console since the last call."""
        return [each["message"] for each in self.chrome.get_log("browser") if each["level"] == "SEVERE"]


@pytest.fixture(scope="module")
def page(
    bench: Bench, tmp_path_factory: pytest.TempPathFactory, eventually: Callable[..., Any]
) -> Iterator[Page]:
    """Airflow has a DAG with a run, whose task has not begun."""

    def with_dag(airflow: LocalAirflow) -> None:
        airflow.dags_folder.mkdir(exist_ok=True)
        (airflow.dags_folder / "report.py").write_text(DAG)
        done = airflow.cli("dags", "reserialize")
        assert done.returncode == 0, done.stdout

    home = tmp_path_factory.mktemp("page") / "home"
    with page_server(home, bench, eventually, {}, BELOW, with_dag) as made:
        headers = {"authorization": f"Bearer {made.tokens['admin']}"}
        run = {"dag_run_id": RUN, "logical_date": None}
        answer = made.client.post("/api/v2/dags/report/dagRuns", json=run, headers=headers)
        assert answer.status_code == 200, answer.text
        yield made


@pytest.fixture(scope="module")
def browser(page: Page, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("chromium")) as chrome:
        yield Browser(chrome, page)


def test_a_wait_is_found_on_the_page_and_ended_by_an_event_sent_from_its_tab(
    page: Page, browser: Browser
) -> None:
    bench, name = page.bench, f"airflow/report/{RUN}/wait"
    with bench.engine(), bench.waiting() as wait:
        opened = wait(name, ORDERS & RATES, DAY)
        bench.emit("com.shop.orders", source="/spark/orders", data={"day": DAY})

        browser.sign_in("viewer")
        browser.open(TAB)
        browser.sees("orders came at")
        browser.sees("rates is missing")
        buttons = browser.chrome.find_elements(By.CSS_SELECTOR, "[data-interlock] button")
        assert not [each.text for each in buttons if "…" in each.text]

        browser.sign_in("admin")
        browser.open("/")
        browser.click("Browse")
        browser.click("Interlock", "a", "*")
        browser.sees("report")
        browser.sees("rates")
        browser.open(TAB)
        browser.click("Send an event…")
        browser.click("Send it")
        opened.firing()
        browser.sees("com.shop.rates")
    assert browser.faults() == []
