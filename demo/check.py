"""Checks a story: each report ran once, with the right inputs, after one firing. Says what is wrong.

Uses only the evidence from the topics, Airflow's REST API and the files on disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from . import expected
from .evidence import WAITED_FOR, Action, Evidence, ReportRun, StoredEvent


@dataclass(frozen=True)
class EndedWait:
    """A wait that has ended: its events, the firing, the resumed task (times in ms since the epoch)."""

    date: str
    parts: tuple[tuple[str, StoredEvent], ...]  # (label, event), in order of append times
    fired_ms: int
    resumed_ms: int

    @property
    def completed_ms(self) -> int:
        return self.parts[-1][1].at_ms

    @property
    def resume_ms(self) -> int:
        return self.resumed_ms - self.completed_ms


@dataclass(frozen=True)
class DemoVerdict:
    reports: int
    duplicates: int
    missing: int
    announced: int
    problems: tuple[str, ...]
    waits: tuple[EndedWait, ...]

    @property
    def resume_ms(self) -> list[int]:
        return [wait.resume_ms for wait in self.waits]


def judge(evidence: Evidence) -> DemoVerdict:
    """Checks each date. A problem is a sentence with the date, what was found and what was expected."""
    found = [_Date(evidence, day) for day in evidence.dates]
    problems = [problem for each in found for problem in each.problems]
    problems += _unexpected(evidence)
    return DemoVerdict(
        reports=sum(1 for each in found if each.reported),
        duplicates=sum(each.duplicates for each in found),
        missing=sum(1 for each in found if not each.reported),
        announced=sum(1 for each in found if each.announced),
        problems=tuple(problems),
        waits=tuple(each.wait for each in found if each.wait is not None),
    )


def absent(events: Sequence[StoredEvent], day: str) -> list[str]:
    """Returns the labels of the events of `day` that are not in the event topic; day: a date in ISO 8601."""
    return [label for label in WAITED_FOR if not _of(events, label, day)]


class _Date:
    """Checks one business date, `day` in ISO 8601; `problems` is empty if everything is right."""

    def __init__(self, evidence: Evidence, day: str) -> None:
        self.day = day
        self.problems: list[str] = []
        self.duplicates = 0
        self.wait: EndedWait | None = None
        self._evidence = evidence
        self._parts = self._find_parts()
        self._firing = self._find_firing()
        self._run = self._find_run()
        self.reported = self._find_report()
        self.announced = self._find_announcement()
        if self._firing and self._run:
            self._find_wait(self._firing, self._run)

    def _problem(self, text: str) -> None:
        self.problems.append(f"{self.day}: {text}")

    def _once(self, what: str, found: int) -> None:
        if found > 1:
            self.duplicates += found - 1
            self._problem(f"{found} {what} instead of one")

    def _find_parts(self) -> dict[str, StoredEvent]:
        """Returns {label: first copy} of the events that the wait needs; copies have the same identity."""
        parts = {}
        for label in WAITED_FOR:
            copies = _of(self._evidence.events, label, self.day)
            if not copies:
                self._problem(f"no {label} event in the topic{_instead(self._evidence, label, self.day)}")
                continue
            if len({event.identity for event in copies}) > 1:
                self._problem(
                    f"several different {label} events: {', '.join(e.record.place for e in copies)}"
                )
            parts[label] = copies[0]
        return parts

    def _find_firing(self) -> Action | None:
        actions = [action for action in self._evidence.actions if action.key == self.day]
        fired = [action for action in actions if action.state == "fired"]
        self._once("firings", len(fired))
        if not fired:
            if len(self._parts) == len(WAITED_FOR):
                self._problem("all its events are in the topic and its wait did not fire")
            return None
        firing = fired[0]
        for label, part in self._parts.items():
            taken = [(e["source"], e["id"]) for e in firing.firing["events"].get(label, [])]
            if taken != [part.identity]:
                self._problem(f"its firing took {taken} as {label}, the topic has {part.identity}")
        missing_parts = [label for label in WAITED_FOR if label not in self._parts]
        if missing_parts:
            self._problem(f"its wait fired although {' and '.join(missing_parts)} are missing")
        acknowledged = [action for action in actions if action.state == "acked"]
        if [action.firing["id"] for action in acknowledged] != [firing.firing["id"]]:
            self._problem(
                f"its firing {firing.firing['id']} has {len(acknowledged)} acknowledgements, not one"
            )
        return firing

    def _find_run(self) -> ReportRun | None:
        runs = [run for run in self._evidence.runs if run.date == self.day]
        self._once("runs of daily_report", len(runs))
        if not runs:
            self._problem("daily_report did not run")
            return None
        run = runs[0]
        if run.state != "success":
            states = sorted(run.task_states.items())
            tasks = ", ".join(f"{task} {state or 'not started'}" for task, state in states)
            self._problem(f"daily_report is {run.state} ({tasks})")
        for task, tries in sorted(run.tries.items()):
            self._once(f"tries of {task}", tries)
        self._once("resumptions of its wait", len(run.resumed_ms))
        return run

    def _find_report(self) -> bool:
        """Returns whether a report with the right content exists."""
        reports = self._evidence.reports.get(self.day, [])
        ended = self._ended()
        self._once("report files", len(reports))
        self._once("Spark applications with a completion event", len(ended))
        if not reports:
            self._problem("no report was written")
            return False
        report = reports[0]
        inputs = {label: part.output for label, part in self._parts.items()}
        right = True
        for what, got, wanted in (
            ("date", report.get("date"), self.day),
            ("inputs", report.get("inputs"), inputs),
            ("rates' dates", report.get("rates_of"), [self.day]),
            ("turnover", report.get("turnover"), expected.turnover(date.fromisoformat(self.day))),
            ("firing", report.get("firing"), self._firing.firing["id"] if self._firing else None),
        ):
            if got != wanted:
                right = False
                self._problem(f"the report's {what} should be {wanted} and is {got}")
        if not ended:
            self._problem("a report exists, but its Spark application emitted no event")
        return right

    def _ended(self) -> set[tuple[str, str]]:
        """The completion events of the report's Spark applications."""
        return {
            event.identity
            for event in self._evidence.events
            if event.subject == "daily_report" and event.date == self.day
        }

    def _find_announcement(self) -> bool:
        """Returns whether the readers were told of the report, by its own event."""
        announced = [each.identity for each in self._evidence.announced if each.date == self.day]
        self._once("deliveries of its report's event", len(announced))
        if set(announced) != self._ended():
            self._problem(f"the readers got {sorted(set(announced))}, the topic has {sorted(self._ended())}")
        return bool(announced)

    def _find_wait(self, firing: Action, run: ReportRun) -> None:
        if not run.resumed_ms or len(self._parts) < len(WAITED_FOR):
            return
        parts = tuple(sorted(self._parts.items(), key=lambda part: part[1].at_ms))
        self.wait = EndedWait(self.day, parts, firing.record.timestamp_ms, run.resumed_ms[0])
        if self.wait.resume_ms < 0:
            self._problem(f"its wait was resumed {-self.wait.resume_ms} ms before the last event was stored")


def _of(events: Sequence[StoredEvent], label: str, day: str) -> list[StoredEvent]:
    return [e for e in events if (e.type, e.subject) == WAITED_FOR[label] and e.date == day]


def _instead(evidence: Evidence, label: str, day: str) -> str:
    """Returns a text about events that announce this date's output under another date."""
    strays = [
        f"{event.record.place} has the date {event.date or 'none'} instead"
        for event in evidence.events
        if (event.type, event.subject) == WAITED_FOR[label] and event.date != day and day in event.output
    ]
    return f"; {', '.join(strays)}" if strays else ""


def _unexpected(evidence: Evidence) -> list[str]:
    return [
        f"a firing for {action.key!r}, for which nobody waits: {action.record.place}"
        for action in evidence.actions
        if action.key not in {*evidence.dates, *evidence.known}
    ] + [
        f"a run of daily_report for {run.date}, which the demo did not start: {run.run_id}"
        for run in evidence.runs
        if run.date not in {*evidence.dates, *evidence.known}
    ]
