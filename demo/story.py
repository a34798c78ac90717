"""The story: two business dates, interleaved, so that the events of each report arrive out of order.

The orders of D1 are stored before its report waits; the report of D2 waits before any of its events exists;
the rates of D2 come before those of D1, and complete report D1 while the orders of D2 are still being made.
A Spark job announces the orders, a DAG the rates of D2, and a service outside of Airflow those of D1 by HTTP.
Another service is told of each report over HTTP. A fault of the rates happens to those of D2. A story with
two such faults has a third date, D3, for the second one; its events come as those of D2.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from local.rest import AirflowRest
from local.topics import Record, send_again, wait_for

from .check import absent
from .evidence import EVENT_TOPIC, WAITED_FOR, StoredEvent, read_events
from .feed import RatesFeed
from .progress import ProgressPrinter

DAGS = ("announce_report", "orders_spark", "rates_ingest", "daily_report")
# How long to wait for a step. Spark needs 8 to 15 s for a job on two busy cores.
PATIENCE_S = 900.0  # on a machine that does much else, several Spark jobs at a time take minutes
# How long to watch a wait that lacks an event, in case it fires wrongly.
GRACE_S = 10.0


class StoryError(RuntimeError):
    """The story could not be finished; the message says which part failed and where to look."""


@dataclass(frozen=True)
class Fault:
    """One or more deliberate faults.

    rates: of each date from the second on, a function that returns the conf of its rates_ingest. twice: send
    each orders event twice.
    """

    name: str
    description: str
    rates: tuple[Callable[[date], dict[str, object]], ...] = ()
    twice: bool = False


NONE = Fault("", "")
FAULTS = {
    fault.name: fault
    for fault in (
        Fault(
            "drop-rates",
            "the rates of a later date are written, but no event announces them",
            rates=(lambda _: {"dry_run": True},),
        ),
        Fault(
            "wrong-date",
            "the event of the last date's rates has the next day's date",
            rates=(lambda day: {"business_date": (day + timedelta(days=1)).isoformat()},),
        ),
        Fault("duplicate-orders", "every orders event is sent twice", twice=True),
    )
}


def together(names: str) -> Fault:
    """Several faults as one. names: joined by +. Raises KeyError for an unknown name."""
    asked = [FAULTS[name] for name in names.split("+")]
    chosen = [fault for fault in FAULTS.values() if fault in asked]  # a wrong date must be the last
    return Fault(
        names,
        "; ".join(fault.description for fault in chosen),
        tuple(rates for fault in chosen for rates in fault.rates),
        any(fault.twice for fault in chosen),
    )


def business_dates(number: int, fault: Fault) -> tuple[date, ...]:
    """Returns the dates of story `number`: two, or one more than the rates have faults.

    The day after them belongs to no story.
    """
    last = datetime.now(UTC).date() - timedelta(days=1 + 4 * number)
    later = max(1, len(fault.rates))
    return tuple(last - timedelta(days=before) for before in range(later, -1, -1))


class Story:
    """Plays the story on a running Airflow and broker; `play` returns when every run has ended or is stuck.

    check_services: raises if a part of Airflow or the broker has died; called in every wait.
    """

    def __init__(
        self,
        api: AirflowRest,
        bootstrap_servers: str,
        feed: RatesFeed,
        fault: Fault,
        dates: tuple[date, ...],
        progress: ProgressPrinter,
        check_services: Callable[[], None],
    ) -> None:
        self.dates, self.fault = dates, fault
        self._api, self._servers, self._feed, self._progress = api, bootstrap_servers, feed, progress
        self._check_services = check_services
        self._runs: dict[tuple[str, date], str] = {}

    def play(self) -> None:
        first, *later = self.dates
        for dag_id in DAGS:
            self._api.unpause(dag_id)
        self._start_run("orders_spark", first, "a Spark job makes its orders")
        for day in later:
            self._start_run("daily_report", day, "waits for orders and rates, neither of which exists yet")
        self._await_event("orders", first)
        self._start_run("daily_report", first, "starts to wait after its orders were stored")
        if self.fault.rates:
            for day, conf in zip(later, self.fault.rates, strict=True):
                self._start_run("rates_ingest", day, self.fault.description, conf(day))
                self._await_end("rates_ingest", day)
        else:
            for day in later:
                self._start_run("rates_ingest", day, "the first event for that date's report")
                self._await_event("rates", day)
        for day in self.dates:
            self._await_deferral(day)
        self._start_run("rates_ingest", first, "only writes them", {"dry_run": True})
        for day in later:
            self._start_run("orders_spark", day, "a Spark job makes its orders")
        self._await_end("rates_ingest", first)
        self._progress.say(f"{first}  a feed announces the rates over HTTP: {self._feed.announce(first)}")
        self._await_event("rates", first)
        for day in later:
            self._await_event("orders", day)
        for dag_id in ("orders_spark", "rates_ingest"):
            for day in self.dates:
                self._await_end(dag_id, day)
        self._await_reports()

    def _start_run(self, dag_id: str, day: date, remark: str, conf: dict[str, object] | None = None) -> None:
        logical_date = datetime(day.year, day.month, day.day, tzinfo=UTC)
        self._runs[dag_id, day] = self._api.trigger(dag_id, logical_date=logical_date, conf=conf)
        self._progress.say(f"{day}  {dag_id} started: {remark}")

    def _await_event(self, label: str, day: date) -> None:
        dag_id = {"orders": "orders_spark", "rates": "rates_ingest"}[label]

        def wanted(record: Record) -> bool:
            event = StoredEvent.of(record)
            return (event.type, event.subject) == WAITED_FOR[label] and event.date == day.isoformat()

        def meanwhile() -> None:
            self._progress.waiting(f"for the {label} of {day}")
            self._check_services()
            if self._state(dag_id, day) == "failed":
                raise StoryError(f"{dag_id} of {day} failed; see its log in the UI or under logs/")

        try:
            record = wait_for(self._servers, EVENT_TOPIC, wanted, timeout_s=PATIENCE_S, meanwhile=meanwhile)
        except TimeoutError as error:
            raise StoryError(
                f"no {label} event of {day} after {PATIENCE_S:.0f} s, and {dag_id} of that day is "
                f"{self._state(dag_id, day)}; see its log in the UI or under logs/"
            ) from error
        self._progress.say(f"{day}  {label} event stored: {record.place}")
        if label == "orders" and self.fault.twice:
            send_again(self._servers, record)
            self._progress.say(f"{day}  sent the same {label} event again")

    def _await_deferral(self, day: date) -> None:
        run = self._runs["daily_report", day]

        def is_deferred() -> bool:
            state = self._api.task("daily_report", run, "ready")["state"]
            if state in ("failed", "success", "upstream_failed", "skipped"):
                raise StoryError(f"the wait of daily_report for {day} is {state} before its events exist")
            return bool(state == "deferred")

        self._until(is_deferred, f"for daily_report of {day} to be deferred")
        self._progress.say(f"{day}  daily_report is deferred and waits")

    def _await_end(self, dag_id: str, day: date) -> None:
        self._until(
            lambda: self._state(dag_id, day) in ("success", "failed"), f"for {dag_id} of {day} to end"
        )
        if self._state(dag_id, day) == "failed":
            raise StoryError(f"{dag_id} of {day} failed; see its log in the UI or under logs/")

    def _await_reports(self) -> None:
        """Waits until reports with all events have ended, then gives the others GRACE_S."""
        events = read_events(self._servers)
        complete = [day for day in self.dates if not absent(events, day.isoformat())]
        for day in self.dates:
            if day not in complete:
                lacking = " and ".join(absent(events, day.isoformat()))
                self._progress.say(f"{day}  its {lacking} event is not in the topic and will not come")
        for day in complete:
            self._until(lambda day=day: self._has_ended(day), f"for the report of {day}")  # type: ignore[misc]
            self._progress.say(f"{day}  daily_report ended: {self._state('daily_report', day)}")
        if len(complete) < len(self.dates):
            grace_ends = time.monotonic() + GRACE_S
            self._progress.say(f"watching the other reports for {GRACE_S:.0f} s")
            while time.monotonic() < grace_ends and not all(map(self._has_ended, self.dates)):
                time.sleep(0.5)

    def _has_ended(self, day: date) -> bool:
        return self._state("daily_report", day) in ("success", "failed")

    def _state(self, dag_id: str, day: date) -> str:
        return str(self._api.run(dag_id, self._runs[dag_id, day])["state"])

    def _until(self, done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not done():
            self._check_services()
            self._progress.waiting(what)
            if time.monotonic() > deadline:
                raise StoryError(f"waited {PATIENCE_S:.0f} s {what}, without success; see logs/")
            time.sleep(0.4)
