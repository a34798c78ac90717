"""Plays of what happens to a wait, each in DAGs of its own, and what they return for the tests of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from interlock import Event
from interlock.events import Emitter

from local.rest import instant
from local.topics import read_all

DAY = datetime(2024, 5, 17, tzinfo=UTC)
EXECUTION_TIMEOUT = timedelta(seconds=8)  # as the DAG has it


class Row:
    """What the play of one row uses: a client of its own, and events with the row's name as key."""

    def __init__(self, site: Any, emitter: Emitter, eventually: Callable[..., Any]) -> None:
        self.site, self.eventually = site, eventually
        self.api = site.airflow.new_client()
        self._emitter = emitter

    def emit(self, name: str, event_type: str = "row", **arguments: Any) -> None:
        self._emitter.emit(Event.of(event_type, "/test", data={"row": name}, **arguments))

    def deferred(self, dag_id: str, task_id: str = "wait") -> str:
        self.api.unpause(dag_id)
        run_id: str = self.api.trigger(dag_id)
        self.reaches(dag_id, run_id, "deferred")
        return run_id

    def ends(self, dag_id: str, run_id: str) -> None:
        """Call it before a clear, which leaves the task without a state while the scheduler ends the run."""
        self.api.wait_for_run(dag_id, run_id)

    def reaches(self, dag_id: str, run_id: str, state: str) -> None:
        self.api.wait_for_task(dag_id, run_id, "wait", state, timeout_s=120)

    def output(self, dag_id: str, run_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.api.xcom(dag_id, run_id, "wait")
        return found

    def log(self, dag_id: str, run_id: str) -> str:
        """The log of the last try: Airflow may have needed more than one."""
        number = self.api.task(dag_id, run_id, "wait")["try_number"]
        return "\n".join(str(line) for line in self.api.log(dag_id, run_id, "wait", number))

    def emitted_of(self, run_id: str) -> list[str | None]:
        """The ids of the events that name the run, in their order."""
        records = read_all(self.site.bus.bootstrap_servers, self.site.bus.topic("event"))
        return [record.header("ce_id") for record in records if run_id.encode() in (record.value or b"")]

    def registered(self, run_id: str) -> set[str]:
        """The run's subscriptions that have a registration in force.

        They may have two: a trigger that another triggerer takes over registers again, under another key.
        """
        records = read_all(self.site.bus.bootstrap_servers, self.site.bus.topic("subscription"))
        forms = {record.key: record.json() or {} for record in records}
        names = {form.get("subscription", "") for form in forms.values()}
        return {name for name in names if f"/{run_id}/" in name}

    def registrations(self, run_id: str) -> list[dict[str, Any]]:
        """All registrations of the run, also those that are over."""
        records = read_all(self.site.bus.bootstrap_servers, self.site.bus.topic("subscription"))
        forms = [record.json() or {} for record in records]
        return [form for form in forms if f"/{run_id}/" in form.get("subscription", "")]

    def firings(self, run_id: str) -> set[str]:
        """The ids of the firings that the run's waits were given."""
        records = read_all(self.site.bus.bootstrap_servers, self.site.bus.topic("action"))
        forms = [record.json() or {} for record in records]
        return {form["firing"]["id"] for form in forms if f"/{run_id}/" in form.get("subscription", "")}

    def since(self, run_id: str) -> set[datetime]:
        """From when on the run's waits count events."""
        return {datetime.fromtimestamp(form["since_ms"] / 1000, UTC) for form in self.registrations(run_id)}

    def first_run(self, dag_id: str) -> dict[str, Any]:
        """Waits for the DAG's first run, which Airflow starts by itself, and returns it."""
        return dict(self.eventually(f"{dag_id} has a run", lambda: self.api.runs(dag_id), 180)[0])

    def until_registered(self, run_id: str, count: int = 1) -> None:
        self.eventually(
            f"{count} subscriptions of {run_id} are registered",
            lambda: len(self.registered(run_id)) == count,
            deadline_s=120,
        )

    def until_the_scheduler_starts_another_loop(self) -> None:
        """The scheduler's heartbeat ends a loop, so the next loop reads all that was written before now."""

        def beat() -> str | None:
            return ((self.api.health() or {}).get("scheduler") or {}).get("latest_scheduler_heartbeat")

        before = self.eventually("the scheduler has a heartbeat", beat)
        self.eventually("it has another one", lambda: beat() not in (None, before))


def clear_after_firing(row: Row) -> dict[str, Any]:
    run_id = row.deferred("cleared")
    row.emit("cleared", id="first")
    row.ends("cleared", run_id)
    before = row.output("cleared", run_id)
    row.emit("cleared", id="second")
    row.api.clear("cleared", run_id, "wait")
    row.reaches("cleared", run_id, "deferred")
    row.reaches("cleared", run_id, "success")
    return {"before": before, "after": row.output("cleared", run_id)}


def clear_after_failing(row: Row) -> dict[str, Any]:
    row.emit("failing", "row.failed", id="before the wait")
    row.api.unpause("failing")
    run_id = row.api.trigger("failing")
    row.ends("failing", run_id)
    log = row.log("failing", run_id)
    row.api.clear("failing", run_id, "wait")
    row.reaches("failing", run_id, "deferred")
    row.until_registered(run_id)
    row.emit("failing", id="mended")
    assert row.api.wait_for_run("failing", run_id) == "success"
    return {"log": log, "output": row.output("failing", run_id)}


def clear_of_the_upstream(row: Row) -> dict[str, Any]:
    row.api.unpause("emitting")
    run_id = row.api.trigger("emitting")
    assert row.api.wait_for_run("emitting", run_id) == "success"
    before = row.output("emitting", run_id)
    row.api.clear("emitting", run_id, "emit", downstream=True)
    row.reaches("emitting", run_id, "deferred")
    assert row.api.wait_for_run("emitting", run_id) == "success"
    return {"before": before, "after": row.output("emitting", run_id), "events": row.emitted_of(run_id)}


def marked(row: Row) -> dict[str, Any]:
    runs = {state: row.deferred("marked") for state in ("success", "failed")}
    for run_id in runs.values():
        row.until_registered(run_id)
    for state, run_id in runs.items():
        row.api.mark("marked", run_id, "wait", state)
    for state, run_id in runs.items():
        row.until_registered(run_id, 0)
        assert row.api.wait_for_run("marked", run_id) == state
    for run_id in runs.values():
        row.api.clear("marked", run_id, "wait")
        row.reaches("marked", run_id, "deferred")
        row.until_registered(run_id)
    row.emit("marked", id="after the clear")
    return {
        state: (row.api.wait_for_run("marked", run_id), row.output("marked", run_id))
        for state, run_id in runs.items()
    }


def execution_timeout(row: Row) -> dict[str, Any]:
    """The scheduler looks for deferred tasks whose time is over, fails another one, and leaves the wait.

    In one look it fails all such tasks, so the other one shows that it has looked.
    """
    run_id = row.deferred("execution_timeout")
    began = row.api.task("execution_timeout", run_id, "wait")
    over = instant(began["start_date"]) + EXECUTION_TIMEOUT
    row.eventually("it is deferred for longer than its execution_timeout", lambda: datetime.now(UTC) > over)
    row.api.unpause("timed_by_airflow")
    timed = row.api.trigger("timed_by_airflow")
    row.ends("timed_by_airflow", timed)
    then = row.api.task("execution_timeout", run_id, "wait")
    same_try = then["try_number"] == began["try_number"]
    row.emit("execution_timeout")
    ended = row.api.wait_for_run("execution_timeout", run_id)
    timed_out = "TaskDeferralTimeout" in row.log("timed_by_airflow", timed)
    return {"timed by Airflow": timed_out, "then": then["state"], "same try": same_try, "ended": ended}


def edited(row: Row) -> dict[str, Any]:
    """A try after the edit registers the edited arguments. `wait` and `fails` have one try, `again` has two.

    All events have one source, so they are evaluated in order: those that the edited DAG waits for first.
    """
    run_id = row.deferred("edited")
    row.until_registered(run_id, 3)
    path = row.site.airflow.dags_folder / "edited.py"
    path.write_text(path.read_text().replace('EDITION = "first"', 'EDITION = "second"'))
    of_the_first = [("wait", "met"), ("fails", "failed"), ("again", "met")]
    for task_id, kind in of_the_first:
        # of the one edition by their type, and of the other by their key
        for by_type, by_key in (("first", "second"), ("second", "first")):
            row.emit(f"{task_id}-{by_key}", f"row.{kind}.{by_type}", id="neither")
    row.emit("again-second", "row.failed.first", id="neither")
    for task_id in ("wait", "fails", "again"):
        row.emit(f"{task_id}-second", "row.met.second", id="second")
    for task_id, kind in of_the_first:
        row.emit(f"{task_id}-first", f"row.{kind}.first", id="first")
    row.ends("edited", run_id)
    tasks = {task["task_id"]: (task["state"], task["try_number"]) for task in row.api.tasks("edited", run_id)}
    log = str(row.api.log("edited", run_id, "fails"))
    succeeded = [task_id for task_id, (state, _) in tasks.items() if state == "success"]
    return {"tasks": tasks, "log": log, **{each: row.api.xcom("edited", run_id, each) for each in succeeded}}


def edited_end(row: Row) -> dict[str, Any]:
    """One wait expires a second after its first half, the other one fails; both after the edit."""
    run_id = row.deferred("edited_end")
    row.until_registered(run_id, 2)
    path = row.site.airflow.dags_folder / "edited_end.py"
    text = path.read_text().replace('on_expired="fail"', 'on_expired="succeed"')
    path.write_text(text.replace("soft_fail=False", "soft_fail=True"))
    row.emit("edited_end")
    row.emit("edited_end", "row.failed")
    row.ends("edited_end", run_id)
    states = {task["task_id"]: task["state"] for task in row.api.tasks("edited_end", run_id)}
    return {"states": states, "output": row.output("edited_end", run_id)}


def retried(row: Row) -> dict[str, Any]:
    run_id = row.deferred("retried")
    row.emit("retried", id="first")
    row.reaches("retried", run_id, "up_for_retry")
    row.emit("retried", id="second")
    assert row.api.wait_for_run("retried", run_id) == "success"
    tries = row.api.task("retried", run_id, "wait")["try_number"]
    logs = "".join(str(row.api.log("retried", run_id, "wait", number + 1)) for number in range(tries))
    since = re.findall(r"events since (\S+), until", logs)
    run_after = instant(row.api.run("retried", run_id)["run_after"])
    return {**row.output("retried", run_id), "since": since, "run after": run_after}


def killed(row: Row) -> dict[str, Any]:
    run_id = row.deferred("killed")  # in its second try
    row.emit("killed", id="first")
    row.eventually(
        "its third try", lambda: row.api.task("killed", run_id, "wait")["try_number"] > 2, deadline_s=120
    )
    row.emit("killed", id="second")
    state = row.api.wait_for_run("killed", run_id)
    return {"state": state, "output": row.output("killed", run_id), "firings": row.firings(run_id)}


def backfilled(row: Row) -> dict[str, Any]:
    row.emit("2024-05-17", id="before")
    row.api.unpause("backfilled")
    row.api.backfill("backfilled", DAY, DAY)
    run = row.first_run("backfilled")
    state = row.api.wait_for_run("backfilled", run["dag_run_id"])
    return {"type": run["run_type"], "state": state, "since": row.since(run["dag_run_id"])}


def updated(row: Row) -> dict[str, Any]:
    row.emit("updated", id="before")
    row.emit("None", id="of no partition")
    row.api.unpause("updated")
    row.api.update_asset("updated_asset")
    run = row.first_run("updated")
    run_id = run["dag_run_id"]
    row.ends("updated", run_id)
    states = {task["task_id"]: task["state"] for task in row.api.tasks("updated", run_id)}
    log = str(row.api.log("updated", run_id, "partition"))
    since = row.since(run_id)
    return {"run": run, "states": states, "log": log, "since": since}


def two_deployments(row: Row) -> dict[str, Any]:
    row.api.unpause("shared")
    run_id = row.api.trigger("shared")
    row.until_registered(run_id, 2)
    subscriptions = {form["subscription"] for form in row.registrations(run_id)}
    row.emit("shared", id="for both")
    state = row.api.wait_for_run("shared", run_id)
    outputs = [row.api.xcom("shared", run_id, task_id) for task_id in ("wait", "elsewhere")]
    return {"run": run_id, "subscriptions": subscriptions, "state": state, "outputs": outputs}


def paused(row: Row) -> dict[str, Any]:
    run_id = row.deferred("paused")
    row.api.pause("paused")
    row.emit("paused")
    row.reaches("paused", run_id, "scheduled")
    while_paused = row.api.task("paused", run_id, "wait")["state"]
    row.api.unpause("paused")
    return {"while paused": while_paused, "then": row.api.wait_for_run("paused", run_id)}


def deleted(row: Row) -> dict[str, Any]:
    """Airflow 3.3's scheduler ends where a DAG goes away in the loop that has read it."""
    run_id = row.deferred("deleted")
    row.until_registered(run_id)
    row.api.pause("deleted")
    row.until_the_scheduler_starts_another_loop()
    row.api.delete("deleted")
    row.until_registered(run_id, 0)
    return {}


def made_again(row: Row) -> dict[str, Any]:
    """It expires; then its run is deleted, its event comes, and a run of the same id is made."""
    states = []
    row.api.unpause("made_again")
    for _ in range(2):
        run_id = row.api.trigger("made_again", run_id="manual__made_again", logical_date=DAY)
        states.append(row.api.wait_for_run("made_again", run_id))
        if len(states) == 1:
            row.api.delete_run("made_again", run_id)
            row.emit("made_again", id="there by now")
    return {"states": states, "output": row.output("made_again", run_id)}


def mapped(row: Row) -> dict[str, Any]:
    row.api.unpause("mapped")
    run_id = row.api.trigger("mapped")
    row.until_registered(run_id, 8)
    for n in range(8):
        row.emit(f"mapped-{n}", id=str(n))
    state = row.api.wait_for_run("mapped", run_id)
    return {"state": state, "tasks": row.api.tasks("mapped", run_id)}


def dag_test(row: Row) -> dict[str, Any]:
    beside = row.deferred("beside")
    row.emit("tested")
    before = row.eventually("an engine runs", lambda: _own_members(row), deadline_s=120)
    for _ in range(3):
        done = row.site.airflow.cli("dags", "test", "tested", timeout_s=400)
        if "PendingRollbackError" not in done.stdout and "database is locked" not in done.stdout:
            break  # else the command and the DAG processor wrote the DAG to SQLite at the same moment
    after = _own_members(row)
    row.emit("beside", id="later")
    ended = row.api.wait_for_run("beside", beside)
    played = {"printed": done.stdout, "code": done.returncode, "beside": ended}
    return {"before": before, "after": after, **played}


def _own_members(row: Row) -> frozenset[str]:
    """The engines of this Airflow; another row starts one of a second deployment."""
    return frozenset(name for name in row.site.members() if "-elsewhere-" not in name)
