"""Firings in Airflow's database: as JSON that it accepts, and as the payload of asset events."""

from __future__ import annotations

import json
import re
from typing import Any

from ..engine.records import FiringRecord
from ..engine.records.firing_fit import fit
from ..engine.records.firing_form import firing_form
from ..engine.records.sizes import MAX_FIRING_BYTES

_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")  # an escaped NUL, not a backslash before the text u0000


def json_text(value: Any) -> str:
    """Returns JSON for Airflow's database. Raises ValueError for what PostgreSQL does not accept."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    text.encode()  # no lone surrogate
    if _NUL.search(text):
        raise ValueError("it contains a NUL character")
    return text


def asset_payload(firing: FiringRecord) -> dict[str, Any]:
    """Returns the payload of the asset event: the firing in a form that the database accepts.

    If the database refuses the whole firing, the events' content is left out; if it refuses that too, also
    the events and the key.
    """
    for most_bytes in (MAX_FIRING_BYTES, 1):  # 1: as short as `fit` can make it
        form = firing_form(fit(firing, most_bytes))
        try:
            json_text(form)
        except (TypeError, ValueError):
            continue
        return form
    return {**form, "key": None, "events": {}, "recorded": {}}
