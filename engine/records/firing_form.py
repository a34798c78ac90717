"""The JSON form of a firing that users get: from tasks, confs, asset events and deliveries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Protocol

FORM_VERSION: Final = 1


class AnyFiring(Protocol):
    """A firing as its record has it: `FiringRecord`, or one whose events are not decoded."""

    @property
    def id(self) -> str: ...
    @property
    def outcome(self) -> str: ...
    @property
    def key(self) -> str | None: ...
    @property
    def written(self) -> str | None: ...
    @property
    def fired_at(self) -> str: ...
    @property
    def events(self) -> Mapping[str, object]: ...
    @property
    def origins(self) -> Mapping[str, Sequence[Mapping[str, Any]]]: ...
    @property
    def missing(self) -> Sequence[str]: ...
    @property
    def left_out(self) -> Mapping[str, int]: ...


def firing_form(firing: AnyFiring, written: str | None = None) -> dict[str, Any]:
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


def _recorded(firing: AnyFiring, label: str) -> list[str]:
    """Returns the record timestamp of each event; unlike the attribute `time`, every event has one.

    A producer may set a timestamp beyond the year 9999, and a record that no engine wrote may lack one: it is
    replaced by the time of the firing.
    """
    moments = []
    for origin in firing.origins.get(label, ()):
        try:
            stamp = datetime.fromtimestamp(origin["timestamp_ms"] / 1000, UTC)
        except (KeyError, TypeError, OverflowError, ValueError, OSError):
            moments.append(firing.fired_at)
        else:
            moments.append(stamp.isoformat(timespec="milliseconds"))
    return moments
