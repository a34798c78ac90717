"""Firings in Airflow's database: as its JSON, as the result of a task, and as the payload of asset events."""

from __future__ import annotations

import base64
import json
import re
from typing import Any, Final

import msgspec

from ..engine.records import FiringRecord
from ..engine.records.firing_fit import fit
from ..engine.records.firing_form import firing_form
from ..engine.records.sizes import MAX_FIRING_BYTES

_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")  # an escaped NUL, not a backslash before the text u0000
# Airflow writes an object to XCom as a dict with such names. It refuses to write a dict that has one of the
# first, and reads one that has both of the second as another value.
_REFUSED: Final = frozenset({"__classname__", "__id__"})
_MISREAD: Final = frozenset({"__type", "__var"})


def json_text(value: Any) -> str:
    """Returns JSON for Airflow's database. Raises ValueError for what PostgreSQL does not accept."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    text.encode()  # no lone surrogate
    if _NUL.search(text):
        raise ValueError("it contains a NUL character")
    return text


def task_result(firing: FiringRecord, written: str | None = None) -> dict[str, Any]:
    """Returns the form of a firing that a task can return: XCom gives it to other tasks unchanged.

    Data with names that XCom reserves are in `data_base64`, as data that a JSON column cannot hold.
    written: as for `firing_form`.
    """
    events = {label: [_passable(each) for each in together] for label, together in firing.events.items()}
    return firing_form(fit(msgspec.structs.replace(firing, events=events), MAX_FIRING_BYTES), written)


def _passable(event: dict[str, Any]) -> dict[str, Any]:
    if not _has_reserved_name(event.get("data")):
        return event
    data = json.dumps(event["data"], ensure_ascii=False, separators=(",", ":")).encode()
    rest = {name: value for name, value in event.items() if name != "data"}
    return {**rest, "data_base64": base64.b64encode(data).decode("ascii")}


def _has_reserved_name(data: object) -> bool:
    left = [data]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            if value.keys() & _REFUSED or value.keys() >= _MISREAD:
                return True
            left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)
    return False


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
