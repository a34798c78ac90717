"""What Airflow reads of the plugin: the page, the tab, and the app that the API server mounts."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from airflow.api_fastapi.core_api.datamodels.plugins import ReactAppResponse
from airflow.plugins_manager import is_valid_plugin
from fastapi import FastAPI
from fastapi.testclient import TestClient
from interlock.plugin import entry
from interlock.plugin.page import ui_apps
from interlock.plugin.page.app import fastapi_apps, page_app
from interlock.triggers.settings import page_connections

CONNECTIONS = "AIRFLOW__INTERLOCK__PAGE_CONNECTIONS"


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The bundle's file."""
    file = tmp_path / "interlock.js"
    file.write_text("globalThis.Interlock = null\n")
    monkeypatch.setattr(ui_apps, "FILE", file)
    for cached in (ui_apps.bundle_version, ui_apps.react_apps):
        cached.cache_clear()
    return file


@pytest.fixture(autouse=True)
def _forget() -> Any:
    yield
    for cached in (ui_apps.bundle_version, ui_apps.react_apps, fastapi_apps):
        cached.cache_clear()


@pytest.mark.parametrize(
    ("value", "connections"),
    [(None, ("kafka_default",)), ("", ()), (" , ", ()), ("a", ("a",)), (" b,a ,b", ("b", "a"))],
)
def test_the_setting_names_connections_the_default_one_first(
    monkeypatch: pytest.MonkeyPatch, value: str | None, connections: tuple[str, ...]
) -> None:
    if value is not None:
        monkeypatch.setenv(CONNECTIONS, value)
    assert page_connections() == connections


def test_the_plugin_has_a_page_and_a_tab_unless_no_connection_is_named(
    monkeypatch: pytest.MonkeyPatch, built: Path
) -> None:
    assert is_valid_plugin(entry.InterlockPlugin)
    page, tab = map(ReactAppResponse.model_validate, entry.InterlockPlugin.react_apps)
    assert (page.name, page.url_route, page.destination) == ("Interlock", "interlock", "nav")
    assert (tab.name, tab.url_route, tab.destination) == ("Wait", "interlock-wait", "task_instance")
    assert page.bundle_url == tab.bundle_url
    assert page.bundle_url.startswith(f"interlock-ui/interlock.js?v={version('airflow-interlock')}-")
    [mount] = entry.InterlockPlugin.fastapi_apps
    assert mount["url_prefix"] == "/interlock-ui"
    assert isinstance(mount["app"], FastAPI)  # else the API server would not run its lifespan
    assert entry.InterlockPlugin.fastapi_apps[0]["app"] is mount["app"]
    monkeypatch.setenv("AIRFLOW__INTERLOCK__RECEIVER_IN_API_SERVER", "events")
    prefixes = [each["url_prefix"] for each in entry.InterlockPlugin.fastapi_apps]
    assert prefixes == ["/interlock", "/interlock-ui"]
    monkeypatch.setenv(CONNECTIONS, "")
    assert entry.InterlockPlugin.react_apps == []
    assert [each["url_prefix"] for each in entry.InterlockPlugin.fastapi_apps] == ["/interlock"]


@pytest.fixture
def client() -> TestClient:
    return TestClient(page_app(["kafka"], lambda conn_id: pytest.fail("the bundle needs no bus")))


def test_a_browser_keeps_the_bundle_of_a_version_and_asks_for_any_other(
    built: Path, client: TestClient
) -> None:
    found = client.get("/interlock.js", params={"v": ui_apps.bundle_version()})
    assert found.text == built.read_text()
    assert found.headers["content-type"] == "text/javascript; charset=utf-8"
    assert found.headers["cache-control"] == "public, max-age=31536000, immutable"
    for other in ({}, {"v": "0.0.9-12345678"}):
        assert client.get("/interlock.js", params=other).headers["cache-control"] == "no-cache"
    known = {"if-none-match": found.headers["etag"]}
    assert client.get("/interlock.js", headers=known).status_code == 304


def test_another_bundle_has_another_version(built: Path) -> None:
    before = ui_apps.bundle_version()
    built.write_text("globalThis.Interlock = 1\n")
    ui_apps.bundle_version.cache_clear()
    assert ui_apps.bundle_version() != before


def test_an_installation_without_the_bundle_says_how_to_build_it(built: Path, client: TestClient) -> None:
    built.unlink()
    ui_apps.bundle_version.cache_clear()
    found = client.get("/interlock.js")
    assert (found.status_code, found.json()["detail"]) == (
        404,
        "This installation has no interlock.js: build it with npm in ui/.",
    )


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json", "/", "/waits/", "/nothing"])
def test_nothing_lists_the_routes(client: TestClient, path: str) -> None:
    assert client.get(path, follow_redirects=False).status_code == 404
