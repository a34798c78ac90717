"""The plugin that Airflow loads in each of its processes: the listener, and the apps of the API server."""

from __future__ import annotations

from typing import Any

from airflow.sdk.plugins_manager import AirflowPlugin


def _listeners() -> list[object]:
    """Returns the listener only if it is configured: any listener disables some features of Airflow."""
    from airflow.sdk.configuration import conf

    if not conf.get("interlock", "listener", fallback="").strip():
        return []  # nothing is imported yet: this runs in every process of Airflow
    from ..events.errors import InterlockError
    from ..events.visible import visible_logger
    from ..triggers.settings import listener_settings

    try:
        settings = listener_settings()
    except InterlockError as e:
        # An exception here would put a traceback into every task's log.
        visible_logger(__name__).error("Interlock's listener is not registered: %s", e)
        return []
    from .completions.listener import CompletionListener

    return [CompletionListener(settings)] if settings.kinds else []


class _FastapiApps:
    """What the API server mounts. Made when it asks, so that no other process imports FastAPI for it."""

    def __get__(self, _instance: object, _owner: type) -> list[Any]:
        from airflow.sdk.configuration import conf

        found: list[Any] = []
        connection = conf.get("interlock", "receiver_in_api_server", fallback="").strip()
        if connection:
            from .api_server import fastapi_apps

            found += fastapi_apps(connection)
        if connections := _page_connections():
            from .page.app import fastapi_apps as page_apps

            found += page_apps(connections)
        return found


class _ReactApps:
    """What Airflow's UI shows: the page and the tab."""

    def __get__(self, _instance: object, _owner: type) -> list[Any]:
        if not _page_connections():
            return []
        from .page.ui_apps import react_apps

        return react_apps()


def _page_connections() -> tuple[str, ...]:
    from ..triggers.settings import page_connections

    return page_connections()


class InterlockPlugin(AirflowPlugin):
    name = "interlock"
    fastapi_apps: Any = _FastapiApps()
    react_apps: Any = _ReactApps()
    listeners = _listeners()
