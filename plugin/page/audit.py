"""What users change through the page, in Airflow's audit log and in the API server's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...events.visible import visible_logger

if TYPE_CHECKING:
    from .rights import Rights

log = visible_logger(__name__)


def record(rights: Rights, action: str, dag_id: str | None, about: Mapping[str, Any]) -> None:
    """Write what a user is about to do. Raises what the database raises: then it is not done."""
    from airflow.models.log import Log
    from airflow.utils.session import create_session

    log.info("%s of the page by user %r: %s", action, rights.name, json.dumps(about))
    entry = Log(
        event=f"interlock_{action}",
        owner=rights.name,
        owner_display_name=rights.name,
        extra=json.dumps(about),
        dag_id=dag_id,
    )
    with create_session() as session:
        session.add(entry)
