"""The engine's log, which Airflow shows with the triggerer's; its lines carry fields beside their text.

Fields are structlog's context variables: Airflow's set-up adds those of the thread to each line, also to
lines of this logger of the standard library. `bus` and `engine` are bound in the threads of `runtime`.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager

from structlog.contextvars import bound_contextvars

log = logging.getLogger("interlock.engine")


def at(topic: str, partition: int, offset: int | None = None) -> AbstractContextManager[None]:
    """Within it, lines carry `topic`, `partition` and, where a record is meant, `offset` as fields."""
    place = {"topic": topic, "partition": partition}
    return bound_contextvars(**place if offset is None else {**place, "offset": offset})
