"""The apps of Airflow's UI: the page in its navigation, the tab of a task instance. Imports no FastAPI."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

PATH: Final = "/interlock-ui"  # where the API server mounts the page's app
FILE: Final = Path(__file__).parent / "www" / "interlock.js"


@cache
def bundle_version() -> str:
    """Another one for each content of the bundle, so that no browser keeps that of an earlier release."""
    try:
        digest = hashlib.sha256(FILE.read_bytes()).hexdigest()[:8]
    except OSError:  # a checkout in which it was not built
        digest = "none"
    return f"{version('airflow-interlock')}-{digest}"


@cache
def react_apps() -> list[dict[str, Any]]:
    """What Airflow reads of the plugin.

    A name is the title, and the name under which the bundle defines the app. The URL has no slash in front:
    it is relative to the address at which Airflow is served.
    """
    url = f"{PATH[1:]}/interlock.js?v={bundle_version()}"
    page = {"name": "Interlock", "url_route": "interlock", "destination": "nav", "category": "browse"}
    tab = {"name": "Wait", "url_route": "interlock-wait", "destination": "task_instance"}
    return [{**page, "bundle_url": url}, {**tab, "bundle_url": url}]
