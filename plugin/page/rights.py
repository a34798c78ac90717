"""Who may see and do what: each question goes to Airflow's auth manager, for the user of the request.

Airflow protects no route of a plugin, so each route here has `Rights` among its arguments, and each that
changes something has `Guarded` too. Calls of the auth manager block: they run in threads, as in Airflow's own
routes.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

from fastapi import Depends, HTTPException, Request
from fastapi.concurrency import run_in_threadpool

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity

# No DAG has this id: Airflow allows no spaces. Who may read it may read DAGs of any name.
_ANY_DAG: Final = "a DAG of any name"
_MOST_TOKEN_CHARS: Final = 8192


class Rights:
    """What one user may see and do, for the length of one request.

    manager: Airflow's auth manager. user: as its `get_user_from_token` returned it.
    """

    def __init__(self, manager: Any, user: Any) -> None:
        self._manager, self._user = manager, user
        self._logs: dict[str | None, bool] = {}
        self._edited: dict[str, bool] = {}

    @property
    def name(self) -> str:
        """The user's name, for Airflow's audit log."""
        return str(self._user.get_name())

    @cached_property
    def readable(self) -> frozenset[str]:
        """The DAGs of this Airflow that the user may read."""
        return frozenset(self._manager.get_authorized_dag_ids(user=self._user, method="GET"))

    @cached_property
    def reads_all(self) -> bool:
        """Whether the user may read every DAG, and those of any name."""
        return self._dag("GET", _ANY_DAG) and not _all_dags() - self.readable

    @property
    def dags(self) -> frozenset[str] | None:
        """The DAGs whose rows the user may see; None: all rows, also those without a DAG."""
        return None if self.reads_all else self.readable

    def reads(self, dag_id: str | None) -> bool:
        """Whether the user may see the rows of a DAG; None: rows without a DAG of this Airflow."""
        return self.reads_all or (dag_id is not None and dag_id in self.readable)

    def reads_texts(self, dag_id: str | None = None) -> bool:
        """Whether the user may see texts of events: of a DAG's rows, or of all (None)."""
        if self._reads_all_logs:
            return True
        if dag_id not in self._logs:
            self._logs[dag_id] = dag_id is not None and self.reads(dag_id) and self._log(dag_id)
        return self._logs[dag_id]

    @cached_property
    def _reads_all_logs(self) -> bool:
        return self.reads_all and self._log(_ANY_DAG)

    def _log(self, dag_id: str) -> bool:
        from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity

        return self._dag("GET", dag_id, DagAccessEntity.TASK_LOGS)

    def edits(self, dag_id: str | None, conn_id: str) -> bool:
        """Whether the user may cancel waits and skip firings of a DAG; without a DAG, operating is needed."""
        from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity

        if dag_id is None:
            return self.operates(conn_id)
        if dag_id not in self._edited:
            self._edited[dag_id] = self.reads(dag_id) and self._dag("PUT", dag_id, DagAccessEntity.RUN)
        return self._edited[dag_id]

    def operates(self, conn_id: str) -> bool:
        """Whether the user may edit the connection of a bus: see dead letters, redrive, send events."""
        from airflow.api_fastapi.auth.managers.models.resource_details import ConnectionDetails
        from airflow.models.connection import Connection

        details = ConnectionDetails(conn_id=conn_id, team_name=Connection.get_team_name(conn_id))
        return bool(self._manager.is_authorized_connection(method="PUT", details=details, user=self._user))

    def require(self, allowed: bool, what: str) -> None:
        """Raises the answer 403, if it is not allowed. what: "see this", with what the user lacks."""
        if not allowed:
            raise HTTPException(403, f"You may not {what}.")

    def _dag(self, method: str, dag_id: str, entity: DagAccessEntity | None = None) -> bool:
        from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
        from airflow.models.dag import DagModel

        details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
        found = self._manager.is_authorized_dag(
            method=method, access_entity=entity, details=details, user=self._user
        )
        return bool(found)


def _all_dags() -> set[str]:
    """The DAGs that this Airflow knows."""
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        return set(session.scalars(select(DagModel.dag_id)))


async def rights_of(request: Request) -> Rights:
    """The rights of the request's user. Raises the answer 401 if there is none."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.core_api.security import bearer_scheme, get_user

    credentials = await bearer_scheme(request)
    tokens = (credentials.credentials if credentials else "", request.cookies.get("_token", ""))
    if any(len(token) > _MOST_TOKEN_CHARS for token in tokens):
        raise HTTPException(401, "Airflow has no token of this length. Sign in again.")
    try:
        user = await get_user(request, None, credentials)
    except HTTPException as error:
        # Airflow answers 403 to a token that it did not make. Who is not known has no rights to lack.
        raise HTTPException(401, f"{error.detail}. Sign in to Airflow again.") from None
    except (ValueError, TypeError, OverflowError, RecursionError, KeyError):  # of a token made to harm
        raise HTTPException(401, "Airflow cannot read the token. Sign in again.") from None
    return Rights(await run_in_threadpool(get_auth_manager), user)


User = Annotated[Rights, Depends(rights_of)]


def guarded(request: Request, _: User) -> None:
    """Refuses a request that a page of another site may have sent with the cookie of whoever looks at it.

    G1  A browser says in `Sec-Fetch-Site` who sends: only Airflow's own pages may.
    G2  Where it does not (browsers leave it out without https), `Origin` must be Airflow's own address.
    G3  A request with neither is not of a browser's page: it needs a token in the header `Authorization`.

    A token does not replace G1 and G2: `simple_auth_manager_all_admins` adds one to each request. And the
    body must be declared as JSON, which no page of another site can send without asking first.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise HTTPException(415, "Send a JSON body with content-type application/json.")
    if not _is_own(request):
        raise HTTPException(
            403,
            "This request may come from a page of another site. Send it from Airflow's own pages, or from a "
            "program with the header `Authorization: Bearer TOKEN`.",
        )


def _is_own(request: Request) -> bool:
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"  # G1
    origin = request.headers.get("origin")
    if origin is not None:
        return urlsplit(origin).netloc in _own_hosts(request)  # G2
    return request.headers.get("authorization", "").lower().startswith("bearer ")  # G3


def _own_hosts(request: Request) -> set[str]:
    """The names by which a browser reaches this Airflow: as it says, and as Airflow is configured."""
    from airflow.configuration import conf

    hosts = {request.headers.get("host", ""), urlsplit(conf.get("api", "base_url", fallback="")).netloc}
    return hosts - {""}


Guarded = Depends(guarded)
