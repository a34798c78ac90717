"""The plugin that Airflow loads in each of its processes: registers the listener if it is configured."""

from __future__ import annotations

import logging

from airflow.sdk.plugins_manager import AirflowPlugin

log = logging.getLogger(__name__)


def _listeners() -> list[object]:
    """Returns the listener if it is configured: any registered listener disables some features of Airflow."""
    from airflow.sdk.configuration import conf

    if not conf.get("interlock", "listener", fallback="").strip():
        return []  # before anything is imported: this runs in each process of each task
    from ..events.errors import InterlockError
    from ..triggers.settings import listener_settings

    try:
        settings = listener_settings()
    except InterlockError as e:
        # An exception here would put a traceback into every task's log.
        log.error("Interlock's listener is not registered: %s", e)
        return []
    from .completions.listener import CompletionListener

    return [CompletionListener(settings)] if settings.kinds else []


class InterlockPlugin(AirflowPlugin):
    name = "interlock"
    listeners = _listeners()
