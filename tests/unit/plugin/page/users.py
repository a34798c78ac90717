"""Users of an Airflow in memory: its auth manager, and what it asks of the database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from airflow.api_fastapi import app as airflow_app
from airflow.models.connection import Connection
from airflow.models.dag import DagModel
from interlock.plugin.page import rights
from jwt import ExpiredSignatureError, InvalidTokenError

DAGS = frozenset({"report", "settle", "secret"})


@dataclass(frozen=True)
class User:
    """Who may read, and edit the runs of, these DAGs; None: of any name. logs: whether also their logs."""

    name: str
    reads: frozenset[str] | None = None
    edits: frozenset[str] | None = frozenset()
    operates: bool = False
    logs: bool = True

    def get_name(self) -> str:
        return self.name


class Manager:
    """An auth manager. A token is the name of its user."""

    users: ClassVar[dict[str, User]] = {
        each.name: each
        for each in (
            User("viewer"),
            User("user", edits=None),
            User("op", edits=None, operates=True),
            User("limited", frozenset({"report"}), frozenset({"report"})),
            User("reader", frozenset({"report"})),
            User("blind", logs=False),
            User("team", DAGS - {"secret"}),  # may read any name, but not what belongs to another team
        )
    }

    async def get_user_from_token(self, token: str) -> User:
        errors: dict[str, Exception] = {
            "expired": ExpiredSignatureError(),
            "harmful": RecursionError(),
            "strange": ValueError(),
        }
        if token in errors:
            raise errors[token]
        if token not in self.users:
            raise InvalidTokenError(token)
        return self.users[token]

    def get_authorized_dag_ids(self, *, user: User, method: str) -> set[str]:
        assert method == "GET"
        return set(DAGS if user.reads is None else DAGS & user.reads)

    def is_authorized_dag(
        self, *, method: str, user: User, access_entity: Any = None, details: Any = None
    ) -> bool:
        if method == "GET":
            if access_entity is not None and not user.logs:
                return False
            return (
                user.reads is None or details.id in user.reads or (user.name == "team" and " " in details.id)
            )
        assert (method, access_entity.name) == ("PUT", "RUN")
        return user.edits is None or details.id in user.edits

    def is_authorized_connection(self, *, method: str, user: User, details: Any) -> bool:
        assert method == "PUT"
        assert details.conn_id
        return user.operates


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Manager:
    made = Manager()
    monkeypatch.setattr(airflow_app._AuthManagerState, "instance", made)
    monkeypatch.setattr(DagModel, "get_team_name", staticmethod(lambda dag_id: None))
    monkeypatch.setattr(Connection, "get_team_name", staticmethod(lambda conn_id: None))
    monkeypatch.setattr(rights, "_all_dags", lambda: set(DAGS))
    return made


def bearer(user: str | None) -> dict[str, str]:
    return {} if user is None else {"authorization": f"Bearer {user}"}
