"""`interlock.fetch`: the event behind a `dataref`. A public name: the call alone imports Airflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..engine.errors import FetchError
from ..events.event import Event
from .settings import DEFAULT_CONNECTION, bus_config


def fetch(
    event: Mapping[str, Any] | str, *, kafka_conn_id: str = DEFAULT_CONNECTION, bus: str | None = None
) -> Event:
    """The whole event: read from its topic where the firing holds a `dataref` in place of its data.

    event: one of a firing's `events`, or the text of a dataref, `kafka:topic/partition/offset`. An event that
    has its data, or never had a dataref, is given as it is; nothing is read then. kafka_conn_id, bus: as of
    the sensor. For tasks: it asks Airflow for the connection.

    FetchError says why there is none: retention removed the record, the bus does not read that topic, or
    another event stands there. UnreachableError: the cluster does not answer; a retry may help.
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
                f"At {dataref} stands event {found.id!r} of {found.source!r}, not {form.get('id')!r} of "
                f"{form.get('source')!r}."
            )
    return found
