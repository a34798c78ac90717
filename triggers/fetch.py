"""`interlock.fetch`: reads the event behind a `dataref`. Imports Airflow only when called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..engine.errors import FetchError
from ..events.event import Event
from .settings import DEFAULT_CONNECTION, bus_config


def fetch(
    event: Mapping[str, Any] | str, *, kafka_conn_id: str = DEFAULT_CONNECTION, bus: str | None = None
) -> Event:
    """Returns the whole event. Reads it from its topic if the firing has a `dataref` instead of its data.

    event: one of a firing's `events`, or the text of a dataref, `kafka:topic/partition/offset`. An event with
        data or without a dataref is returned as it is; nothing is read then.
    kafka_conn_id, bus: as for the sensor. Call it in tasks: it reads the connection from Airflow.

    Raises FetchError if the event cannot be read: retention removed the record, the bus does not read that
    topic, or the record contains another event. Raises UnreachableError if the cluster does not answer; a
    retry may help.
    """
    if not isinstance(event, str):
        form = dict(event)
        dataref = form.get("dataref")
        if dataref is None or "data" in form or "data_base64" in form:
            return Event.from_json_dict(form)
    else:
        form, dataref = {}, event
    from airflow.sdk import BaseHook

    from ..engine.reading.references import referred_event

    config = bus_config(BaseHook.get_connection(kafka_conn_id), bus=bus)
    found = referred_event(config, str(dataref))
    for name, value in (("id", found.id), ("source", found.source)):
        if name in form and form[name] != value:
            raise FetchError(
                f"{dataref} contains event {found.id!r} of {found.source!r}, not {form.get('id')!r} of "
                f"{form.get('source')!r}."
            )
    return found
