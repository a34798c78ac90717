"""The plugin that Airflow loads in each of its processes: the listener, where a setting asks for it."""

from __future__ import annotations

import logging

from airflow.sdk.plugins_manager import AirflowPlugin

log = logging.getLogger(__name__)


def _listeners() -> list[object]:
    """Nothing unless asked for: some features of Airflow are off wherever any listener is registered."""
    from airflow.sdk.configuration import conf

    if not conf.get("interlock", "listener", fallback="").strip():
        return []  # before anything is imported: this runs in each process of each task
    from ..events.errors import InterlockError
    from ..triggers.settings import listener_settings

    try:
        settings = listener_settings()
    except InterlockError as e:
        # Raised here it would be a traceback in every task's log.
        log.error("Interlock's listener is not registered: %s", e)
        return []
    from .completions.listener import EndListener

    return [EndListener(settings)] if settings.kinds else []


class InterlockPlugin(AirflowPlugin):
    name = "interlock"
    listeners = _listeners()
