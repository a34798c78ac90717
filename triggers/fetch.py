"""`interlock.fetch`: reads the event behind a `dataref`. Imports Airflow only when called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..engine.errors import FetchError
from ..events.errors import EventError
from ..events.event import Event
from .argument_checks import ArgumentChecks
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
    checks = ArgumentChecks("fetch()")
    checks.connection(kafka_conn_id)
    checks.name_of("bus", bus)
    if not isinstance(event, Mapping) and not (isinstance(event, str) and event.startswith("kafka:")):
        checks.fail("event", event, "an event of a firing, or the text of a dataref")
    if not isinstance(event, str):
        form = dict(event)
        dataref = form.get("dataref")
        if dataref is None or "data" in form or "data_base64" in form:
            try:
                return Event.from_json_dict(form)
            except EventError as e:
                raise EventError([f"fetch(): event: {problem}" for problem in e.problems]) from None
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
