"""The engine's logger. Airflow shows its lines in the triggerer's log, with structured fields.

The fields are structlog context variables. Airflow's logging adds those of the current thread to each line,
also to lines of this standard-library logger. The threads of `runtime` bind `bus` and `engine`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from structlog.contextvars import bound_contextvars

from ..events.visible import visible_logger

log = visible_logger("interlock.engine")


def at(topic: str, partition: int, offset: int | None = None) -> AbstractContextManager[None]:
    """A context in which log lines carry the fields `topic`, `partition` and, if given, `offset`."""
    place = {"topic": topic, "partition": partition}
    return bound_contextvars(**place if offset is None else {**place, "offset": offset})
