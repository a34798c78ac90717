"""Requests to the REST API that `local.rest` lacks: mapped tasks, many runs, pools."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from local.airflow import LocalAirflow
from local.rest import AirflowRest

PAGE = 500


class Client(AirflowRest):
    """A client for an Airflow whose `[api] maximum_page_limit` is at least PAGE."""

    @classmethod
    def of(cls, airflow: LocalAirflow) -> Client:
        return cls(airflow.login.url, airflow.login.user, airflow.login.password)

    def mapped(self, dag_id: str, run_id: str, task_id: str) -> list[dict[str, Any]]:
        """All instances of a mapped task, by map index."""
        path = f"{self._run_path(dag_id, run_id)}/taskInstances/{quote(task_id)}/listMapped"
        return self._all(path, "task_instances", order_by="map_index")

    def count(self, dag_id: str, run_id: str, task_id: str, state: str) -> int:
        """How many instances of a mapped task are in this state; a cheap request."""
        path = f"{self._run_path(dag_id, run_id)}/taskInstances/{quote(task_id)}/listMapped"
        return int(self._get(path, state=state, limit="1")["total_entries"])

    def all_runs(self, dag_id: str) -> list[dict[str, Any]]:
        return self._all(f"/api/v2/dags/{quote(dag_id)}/dagRuns", "dag_runs", order_by="id")

    def output(self, dag_id: str, run_id: str, task_id: str, map_index: int) -> Any:
        """The return value of a mapped task."""
        path = f"{self._run_path(dag_id, run_id)}/taskInstances/{quote(task_id)}/xcomEntries/return_value"
        return self._get(path, map_index=str(map_index), deserialize="true")["value"]

    def end_run(self, dag_id: str, run_id: str) -> None:
        """Marks a run as failed, which removes its waits."""
        self._send("PATCH", self._run_path(dag_id, run_id), {"state": "failed"})

    def make_pool(self, name: str, slots: int) -> None:
        self._send("POST", "/api/v2/pools", {"name": name, "slots": slots})

    def size_pool(self, name: str, slots: int) -> None:
        self._request(
            "PATCH",
            f"/api/v2/pools/{quote(name)}",
            params={"update_mask": "slots"},
            json={"pool": name, "slots": slots, "include_deferred": False},
        )

    def _all(self, path: str, name: str, **query: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while True:
            page = self._get(path, limit=str(PAGE), offset=str(len(found)), **query)
            found += page[name]
            if not page[name] or len(found) >= page["total_entries"]:
                return found
