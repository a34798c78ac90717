"""Each route of the page, with a request for it, and what users of Airflow's simple auth manager get.

A route that is not here fails the tests: nobody has thought about who may use it.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

ROLES: Final = ("viewer", "user", "op", "admin")


class Asking(NamedTuple):
    """A request, and the status for each of ROLES. `sent`: the query of a GET, the body of a POST."""

    method: str
    path: str
    sent: dict[str, Any]
    statuses: tuple[int, int, int, int] = (200, 200, 200, 200)


TASK: Final = {"dag_id": "report", "run_id": "manual", "task_id": "wait"}
OPEN: Final = (("GET", "/interlock.js"),)  # for everybody: it has no data
REQUESTS: Final = (
    Asking("GET", "/buses", {}),
    Asking("GET", "/waits", {}),
    Asking("GET", "/wait", TASK),
    Asking("GET", "/subscription", {"name": "airflow/report/manual/wait"}),
    Asking("GET", "/firings", {}),
    Asking("GET", "/events", {}),
    Asking("GET", "/event", {"topic": "elsewhere", "partition": 0, "offset": 0}, (404, 404, 404, 404)),
    Asking("GET", "/dead-letters", {}),
    Asking("GET", "/dead-letter", {"place": "0@99"}, (400, 400, 400, 400)),
    Asking("GET", "/graph", {}),
    Asking("GET", "/health", {}),
    Asking("POST", "/cancel", {"name": "airflow/report/manual/none"}, (403, 404, 404, 404)),
    Asking("POST", "/skip", {"name": "airflow/dispatch/report", "firing": "f"}, (403, 404, 404, 404)),
    Asking("POST", "/emit", {"type": "t"}, (403, 403, 200, 200)),
    Asking("POST", "/redrive", {"places": ["0@99"], "preview": True}, (403, 403, 400, 400)),
)
