"""A small client of Airflow's REST API (v2), for the demo and the integration tests."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

import httpx

from .polling import poll

ATTEMPTS = 12  # over 23 s: on SQLite a writer may wait that long for others


class RestError(RuntimeError):
    """Airflow refused a request, or a wait timed out; the message says which and why."""


class AirflowRest:
    """Sends requests to the Airflow at `url` as `user`, and gets tokens for them. Not thread-safe."""

    def __init__(self, url: str, user: str, password: str) -> None:
        self._url, self._user, self._password = url, user, password
        # trust_env: the caller's proxy and .netrc must not affect requests to this machine.
        self._http = httpx.Client(base_url=url, timeout=30.0, trust_env=False)
        self._token: str | None = None

    def close(self) -> None:
        self._http.close()

    def health(self) -> dict[str, Any] | None:
        """Returns the state of each component by name; None if Airflow does not answer."""
        try:
            answer = self._http.get("/api/v2/monitor/health", timeout=5.0)
        except httpx.TransportError:
            return None
        return answer.json() if answer.status_code == 200 else None

    def warm_up(self) -> None:
        """Sends a first request to the execution API, which tasks use. Thread-safe."""
        with contextlib.suppress(httpx.TransportError):
            httpx.get(f"{self._url}/execution/health/ping", timeout=60.0, trust_env=False)

    def jobs(self, job_type: str) -> list[dict[str, Any]]:
        """Returns the live jobs of a type ("SchedulerJob", "TriggererJob"); start_date is a datetime."""
        found = self._get("/api/v2/jobs", job_type=job_type, job_state="running", is_alive="true")["jobs"]
        return [{**job, "start_date": instant(job["start_date"])} for job in found]

    def import_errors(self) -> dict[str, str]:
        """Returns {file name: traceback} of DAG files that cannot be imported."""
        found = self._get("/api/v2/importErrors")["import_errors"]
        return {error["filename"]: error["stack_trace"] for error in found}

    def dag_ids(self) -> set[str]:
        return {dag["dag_id"] for dag in self._get("/api/v2/dags", limit="100")["dags"]}

    def files(self) -> set[str]:
        """Returns the paths of the DAG files that have DAGs or cannot be imported."""
        dags = self._get("/api/v2/dags", limit="100")["dags"]
        return {dag["relative_fileloc"] for dag in dags} | set(self.import_errors())

    def wait_for_dags(self, *dag_ids: str, timeout_s: float = 180.0) -> None:
        """Waits until these DAGs are stored. Raises RestError for an import error, or after `timeout_s`."""

        def stored() -> bool:
            if set(dag_ids) <= self.dag_ids():
                return True
            if errors := self.import_errors():
                raise RestError(
                    "DAG files do not load:\n" + "\n".join(f"{k}\n{v}" for k, v in errors.items())
                )
            return False

        if not poll(stored, timeout_s):
            missing = sorted(set(dag_ids) - self.dag_ids())
            raise RestError(f"no DAG {', '.join(missing)} after {timeout_s:.0f} s")

    def unpause(self, dag_id: str) -> None:
        self._send("PATCH", f"/api/v2/dags/{quote(dag_id)}", {"is_paused": False})

    def pause(self, dag_id: str) -> None:
        self._send("PATCH", f"/api/v2/dags/{quote(dag_id)}", {"is_paused": True})

    def parse_again(self, dag_id: str) -> None:
        """Requests that Airflow parse the DAG's file soon."""
        token = self._get(f"/api/v2/dags/{quote(dag_id)}")["file_token"]
        self._send("PUT", f"/api/v2/parseDagFile/{token}", {})

    def last_parsed(self, dag_id: str) -> str | None:
        """Returns when the DAG's file was last parsed."""
        found: str | None = self._get(f"/api/v2/dags/{quote(dag_id)}")["last_parsed_time"]
        return found

    def asset_events(self, name: str) -> list[dict[str, Any]]:
        """Returns the events of an asset, the oldest first: extra, timestamp, created_dagruns, ..."""
        found = self._get("/api/v2/assets/events", limit="100", order_by="timestamp")["asset_events"]
        return [event for event in found if event["name"] == name]

    def update_asset(self, name: str) -> None:
        """Creates an asset event, as the asset's page in the UI does."""
        found = self._get("/api/v2/assets", name_pattern=name)["assets"]
        [asset_id] = [asset["id"] for asset in found if asset["name"] == name]
        self._send("POST", "/api/v2/assets/events", {"asset_id": asset_id})

    def has_queued_asset_events(self, dag_id: str) -> bool:
        """Returns whether queued asset events will start a run of the DAG."""
        return bool(self._get(f"/api/v2/dags/{quote(dag_id)}/assets/queuedEvents")["total_entries"])

    def trigger(
        self,
        dag_id: str,
        *,
        run_id: str | None = None,
        logical_date: datetime | None = None,
        conf: Mapping[str, Any] | None = None,
        partition_key: str | None = None,
    ) -> str:
        """Creates a run and returns its id, by default a random one, so that a repeat creates no other."""
        body: dict[str, Any] = {
            "dag_run_id": run_id or f"manual__{uuid.uuid4().hex}",
            "logical_date": logical_date.isoformat() if logical_date else None,
            "conf": dict(conf or {}),
            "partition_key": partition_key,
        }
        self._send("POST", f"/api/v2/dags/{quote(dag_id)}/dagRuns", body)
        return str(body["dag_run_id"])

    def backfill(self, dag_id: str, begin: datetime, end: datetime) -> None:
        """Creates runs for the logical dates from `begin` to `end` that have none; there must be such a date.

        While another process writes to SQLite, Airflow may record the backfill and then fail to create its
        runs (503). Such a backfill is cancelled, and the next one is created.
        """
        body = {"dag_id": dag_id, "from_date": begin.isoformat(), "to_date": end.isoformat()}
        for _ in range(ATTEMPTS):
            self._send("POST", "/api/v2/backfills", body)
            if any(run["run_type"] == "backfill" for run in self.runs(dag_id)):
                return
            for found in self._get("/api/v2/backfills", dag_id=dag_id)["backfills"]:
                if found["completed_at"] is None:
                    self._send("PUT", f"/api/v2/backfills/{found['id']}/cancel", {})
        raise RestError(f"{dag_id}: no backfill of {begin} to {end} has a run")

    def delete(self, dag_id: str) -> None:
        """Deletes a DAG and its runs from the database."""
        self._request("DELETE", f"/api/v2/dags/{quote(dag_id)}")

    def delete_run(self, dag_id: str, run_id: str) -> None:
        self._request("DELETE", self._run_path(dag_id, run_id))

    def clear(self, dag_id: str, run_id: str, task_id: str, *, downstream: bool = False) -> None:
        """Clears a task of a run, as the UI does, whatever its state."""
        body = {
            "dry_run": False,
            "only_failed": False,
            "dag_run_id": run_id,
            "task_ids": [task_id],
            "include_downstream": downstream,
        }
        self._send("POST", f"/api/v2/dags/{quote(dag_id)}/clearTaskInstances", body)

    def mark(self, dag_id: str, run_id: str, task_id: str, state: str) -> None:
        """Marks a task "success" or "failed"."""
        path = f"{self._run_path(dag_id, run_id)}/taskInstances/{quote(task_id)}"
        self._send("PATCH", path, {"new_state": state})

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        return list(self._get(f"/api/v2/dags/{quote(dag_id)}/dagRuns", limit="100")["dag_runs"])

    def run(self, dag_id: str, run_id: str) -> dict[str, Any]:
        return self._get(f"/api/v2/dags/{quote(dag_id)}/dagRuns/{quote(run_id, safe='')}")

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Returns the task instances of a run: task_id, state, try_number, map_index, start_date, ..."""
        return list(self._get(f"{self._run_path(dag_id, run_id)}/taskInstances")["task_instances"])

    def task(self, dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
        return self._get(f"{self._run_path(dag_id, run_id)}/taskInstances/{quote(task_id)}")

    def tries(self, dag_id: str, run_id: str, task_id: str) -> list[dict[str, Any]]:
        """Returns every try of a task instance, also the current one."""
        path = f"{self._run_path(dag_id, run_id)}/taskInstances/{quote(task_id)}/tries"
        return list(self._get(path)["task_instances"])

    def log(self, dag_id: str, run_id: str, task_id: str, try_number: int = 1) -> list[dict[str, Any]]:
        """Returns the lines of a task's log: event, and if the line has them timestamp, level, logger, ..."""
        path = f"{self._run_path(dag_id, run_id)}/taskInstances/{quote(task_id)}/logs/{try_number}"
        content = self._get(path, full_content="true")["content"]
        return [line if isinstance(line, dict) else {"event": line} for line in content]

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value") -> Any:
        path = f"{self._run_path(dag_id, run_id)}/taskInstances/{quote(task_id)}/xcomEntries/{quote(key)}"
        return self._get(path, deserialize="true")["value"]

    def wait_for_run(self, dag_id: str, run_id: str, timeout_s: float = 180.0) -> str:
        """Waits until a run ends; returns "success" or "failed". Raises RestError after `timeout_s`."""
        return self._wait_for(
            f"{dag_id} {run_id}", lambda: self.run(dag_id, run_id), ("success", "failed"), timeout_s
        )

    def wait_for_task(
        self, dag_id: str, run_id: str, task_id: str, *states: str, timeout_s: float = 180.0
    ) -> str:
        """Waits until the task has one of `states`; returns it. Raises RestError after `timeout_s`."""
        return self._wait_for(
            f"{dag_id} {run_id} {task_id}", lambda: self.task(dag_id, run_id, task_id), states, timeout_s
        )

    @staticmethod
    def _wait_for(
        what: str, read: Callable[[], Mapping[str, Any]], states: Collection[str], timeout_s: float
    ) -> str:
        seen = None

        def reached() -> bool:
            nonlocal seen
            seen = read()["state"]
            return seen in states

        if not poll(reached, timeout_s):
            raise RestError(f"{what} is {seen} after {timeout_s:.0f} s, not {' or '.join(states)}")
        return str(seen)

    @staticmethod
    def _run_path(dag_id: str, run_id: str) -> str:
        return f"/api/v2/dags/{quote(dag_id)}/dagRuns/{quote(run_id, safe='')}"

    def _get(self, path: str, **query: str) -> dict[str, Any]:
        return self._request("GET", path, params=query)

    def _send(self, method: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._request(method, path, json=dict(body))

    def _request(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        """Sends a request; repeats it after an expired token, an error 5xx, a time-out or a lost connection.

        Each request here may be repeated. On SQLite, Airflow's API server may answer 500: it writes its audit
        log on the event loop, which then waits for a lock whose holder waits for the event loop. It refuses a
        backfill with 503 while another process writes.
        """
        for attempt in range(ATTEMPTS):
            if self._token is None:
                self._token = self._new_token()
            headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
            try:
                answer = self._http.request(method, path, headers=headers, **arguments)
            except (httpx.ReadError, httpx.ReadTimeout, httpx.RemoteProtocolError) as e:
                if attempt == ATTEMPTS - 1:
                    raise RestError(f"{method} {path}: {type(e).__name__}: {e}") from e
                continue
            if answer.status_code == 409 and attempt > 0:
                return {}  # an earlier attempt created it, although its answer was an error
            if answer.status_code == 401:
                self._token = None
            elif answer.status_code < 500:
                break
            else:
                time.sleep(0.3 * (attempt + 1))
        if answer.is_error:
            raise RestError(f"{method} {path}: {answer.status_code} {answer.text[:1000]}")
        return dict(answer.json() or {}) if answer.content else {}

    def _new_token(self) -> str:
        answer = self._http.post("/auth/token", json={"username": self._user, "password": self._password})
        if answer.is_error:
            raise RestError(f"POST /auth/token as {self._user}: {answer.status_code} {answer.text[:200]}")
        return str(answer.json()["access_token"])


def instant(text: str) -> datetime:
    """Returns a time in Airflow's JSON as an aware datetime."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
