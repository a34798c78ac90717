"""The JSON form of a firing that tasks return, and that confs and asset events contain."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any, Final

from ..engine.records import FiringRecord
from ..engine.records.firing import fit
from ..engine.records.sizes import MAX_FIRING_BYTES

FORM_VERSION: Final = 1
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def firing_form(firing: FiringRecord, written: str | None = None) -> dict[str, Any]:
    """Returns the firing in the form that is described in docs/use/waiting.md.

    written: the key as the wait writes it; default: as the event does.
    """
    written = firing.written if written is None else written
    form = {
        "version": FORM_VERSION,
        "firing_id": firing.id,
        "outcome": firing.outcome,
        "key": firing.key if written is None else written,
        "fired_at": firing.fired_at,
        "events": firing.events,
        "recorded": {label: _recorded(firing, label) for label in firing.events},
        "missing": firing.missing,
    }
    if written not in (None, firing.key):
        form["canonical_key"] = firing.key
    return {**form, "left_out": firing.left_out} if firing.left_out else form


def _recorded(firing: FiringRecord, label: str) -> list[str]:
    """Returns the record timestamp of each event; unlike the attribute `time`, every event has one.

    A producer may set a timestamp beyond the year 9999: it is replaced by the time of the firing.
    """
    moments = []
    for origin in firing.origins.get(label, ()):
        try:
            stamp = datetime.fromtimestamp(origin["timestamp_ms"] / 1000, UTC)
        except (OverflowError, ValueError, OSError):
            moments.append(firing.fired_at)
        else:
            moments.append(stamp.isoformat(timespec="milliseconds"))
    return moments


def json_text(value: Any) -> str:
    """Returns JSON for Airflow's database. Raises ValueError for what PostgreSQL does not accept."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    text.encode()  # no lone surrogate
    if _NUL.search(text):
        raise ValueError("it contains a NUL character")
    return text


def asset_payload(firing: FiringRecord) -> dict[str, Any]:
    """Returns the payload of the asset event; without the events' content if the database would refuse it."""
    for most in (MAX_FIRING_BYTES, 1):
        form = firing_form(fit(firing, most))
        try:
            json_text(form)
        except (TypeError, ValueError):
            continue
        return form
    return {**form, "key": None, "events": {}, "recorded": {}}
