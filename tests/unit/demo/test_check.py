"""The demo's check, on topics, runs and reports recorded from a real story."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from demo.check import DemoVerdict, absent, judge
from demo.evidence import Action, Announcement, Evidence, ReportRun, StoredEvent, resumptions
from local.topics import Record

RECORDED = json.loads(Path(__file__).with_name("recorded_story.json").read_text())
FIRST, SECOND = RECORDED["dates"]
Story = dict[str, Any]


def record(form: dict[str, Any]) -> Record:
    key, value = form["key"], form["value"]
    return Record(
        form["topic"],
        form["partition"],
        form["offset"],
        form["timestamp_ms"],
        None if key is None else key.encode(),
        None if value is None else value.encode(),
        tuple((name, text.encode()) for name, text in form["headers"]),
    )


def evidence(story: Story) -> Evidence:
    actions = [Action.of(record(form)) for form in story["actions"]]
    return Evidence(
        dates=story["dates"],
        events=[StoredEvent.of(record(form)) for form in story["events"]],
        actions=[action for action in actions if action is not None],
        runs=[ReportRun(**{**run, "resumed_ms": tuple(run["resumed_ms"])}) for run in story["runs"]],
        reports=story["reports"],
        announced=[Announcement(**form) for form in story["announced"]],
    )


@pytest.fixture
def story() -> Story:
    made = copy.deepcopy(RECORDED)
    ended = [StoredEvent.of(record(form)) for form in made["events"]]
    made["announced"] = [
        {"source": event.source, "id": event.id, "date": event.date}
        for event in ended
        if event.subject == "daily_report"
    ]
    return made


def verdict(story: Story) -> DemoVerdict:
    return judge(evidence(story))


def find_event(story: Story, type_end: str, day: str) -> dict[str, Any]:
    """The recorded event of that business date whose type has this ending, except a report's."""
    for form in story["events"]:
        headers, date = dict(form["headers"]), json.loads(form["value"])["date"]
        of_a_report = headers["ce_subject"] == "daily_report"
        if headers["ce_type"].endswith(type_end) and date == day and not of_a_report:
            return dict(form)
    raise AssertionError(f"no {type_end} of {day} was recorded")


def edit_value(form: dict[str, Any], edit: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    value = json.loads(form["value"])
    edit(value)
    return {**form, "value": json.dumps(value)}


def test_the_recorded_story_is_right(story: Story) -> None:
    found = verdict(story)
    assert found.problems == ()
    assert (found.reports, found.duplicates, found.missing, found.announced) == (2, 0, 0, 2)
    assert [wait.date for wait in found.waits] == [FIRST, SECOND]
    assert all(0 < resume_ms < 60_000 for resume_ms in found.resume_ms)


def test_resume_ms_counts_from_the_event_that_completed_the_condition(story: Story) -> None:
    wait = verdict(story).waits[0]
    assert [label for label, _ in wait.parts] == ["orders", "rates"]
    assert wait.resume_ms == wait.resumed_ms - find_event(story, "published", FIRST)["timestamp_ms"]


def test_a_repeated_event_with_the_same_identity_is_not_a_problem(story: Story) -> None:
    first = find_event(story, "succeeded", FIRST)
    story["events"].append({**first, "offset": 99, "timestamp_ms": first["timestamp_ms"] + 5})
    assert verdict(story).problems == ()


def test_two_different_events_for_one_label_are_a_problem(story: Story) -> None:
    first = find_event(story, "succeeded", FIRST)
    headers = [[name, "another" if name == "ce_id" else text] for name, text in first["headers"]]
    story["events"].append({**first, "offset": 99, "headers": headers})
    assert any("several different orders events" in problem for problem in verdict(story).problems)


def without_report(story: Story, day: str) -> None:
    story["actions"] = [a for a in story["actions"] if json.loads(a["value"])["firing"]["key"] != day]
    story["reports"][day] = []
    for run in story["runs"]:
        if run["date"] == day:
            states = {"ready": "deferred", "daily_report": None}
            run.update(state="running", task_states=states, resumed_ms=[])


def test_rates_that_never_came_are_named_with_their_date(story: Story) -> None:
    story["events"].remove(find_event(story, "published", SECOND))
    without_report(story, SECOND)
    found = verdict(story)
    assert (found.reports, found.missing) == (1, 1)
    assert f"{SECOND}: no rates event in the topic" in found.problems
    assert absent(evidence(story).events, SECOND) == ["rates"]


def test_rates_with_another_date_are_named_with_the_date_they_have(story: Story) -> None:
    wrong = find_event(story, "published", SECOND)
    story["events"].remove(wrong)
    story["events"].append(edit_value(wrong, lambda value: value.update(date="2031-01-01")))
    without_report(story, SECOND)
    place = f"interlock-event[{wrong['partition']}]@{wrong['offset']}"
    expected = f"{SECOND}: no rates event in the topic; {place} has the date 2031-01-01 instead"
    assert expected in verdict(story).problems


def test_a_wait_that_fired_without_all_its_events_is_a_problem(story: Story) -> None:
    story["events"].remove(find_event(story, "published", SECOND))
    assert f"{SECOND}: its wait fired although rates are missing" in verdict(story).problems


def test_a_wait_that_did_not_fire_is_a_problem(story: Story) -> None:
    without_report(story, SECOND)
    assert any("its events are in the topic and its wait did not fire" in p for p in verdict(story).problems)


def test_a_second_firing_is_a_duplicate(story: Story) -> None:
    fired = next(a for a in story["actions"] if json.loads(a["value"])["state"] == "fired")
    story["actions"].append({**fired, "offset": 99})
    found = verdict(story)
    assert found.duplicates == 1
    assert any("2 firings instead of one" in problem for problem in found.problems)


def test_a_firing_without_acknowledgement_is_a_problem(story: Story) -> None:
    story["actions"] = [a for a in story["actions"] if json.loads(a["value"])["state"] == "fired"]
    assert any("has 0 acknowledgements, not one" in problem for problem in verdict(story).problems)


def test_a_firing_with_another_event_is_a_problem(story: Story) -> None:
    for number, form in enumerate(story["actions"]):
        value = json.loads(form["value"])
        if value["firing"]["key"] == FIRST and value["state"] == "fired":
            value["firing"]["events"]["rates"][0]["id"] = "another"
            story["actions"][number] = {**form, "value": json.dumps(value)}
    assert any("its firing took" in problem and "as rates" in problem for problem in verdict(story).problems)


def test_a_firing_for_a_date_nobody_waits_for_is_a_problem(story: Story) -> None:
    fired = story["actions"][0]
    story["actions"].append(edit_value(fired, lambda value: value["firing"].update(key="2031-01-01")))
    assert any("'2031-01-01', for which nobody waits" in problem for problem in verdict(story).problems)


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("inputs", {"inputs": {"orders": "/data/orders/elsewhere", "rates": "/data/rates/elsewhere"}}),
        ("rates' dates", {"rates_of": ["2031-01-01"]}),
        ("turnover", {"turnover": []}),
        ("firing", {"firing": "another"}),
        ("date", {"date": "2031-01-01"}),
    ],
)
def test_a_report_with_wrong_content_does_not_count(story: Story, what: str, change: dict[str, Any]) -> None:
    story["reports"][FIRST][0].update(change)
    found = verdict(story)
    assert (found.reports, found.missing) == (1, 1)
    assert any(f"the report's {what} should be" in problem for problem in found.problems)


def test_a_report_of_swapped_inputs_is_a_problem(story: Story) -> None:
    first, second = story["reports"][FIRST][0], story["reports"][SECOND][0]
    for part in ("inputs", "turnover", "rates_of"):
        first[part], second[part] = second[part], first[part]
    assert verdict(story).reports == 0


def test_a_report_written_twice_is_a_duplicate(story: Story) -> None:
    story["reports"][FIRST].append(story["reports"][FIRST][0])
    assert verdict(story).duplicates == 1


def test_a_report_of_which_the_readers_were_not_told_is_a_problem(story: Story) -> None:
    del story["announced"][0]
    found = verdict(story)
    assert (found.reports, found.announced) == (2, 1)
    assert any("the readers got []" in problem for problem in found.problems)


def test_a_report_of_which_the_readers_were_told_twice_is_a_duplicate(story: Story) -> None:
    story["announced"].append(story["announced"][0])
    found = verdict(story)
    assert found.duplicates == 1
    assert any("2 deliveries of its report's event instead of one" in problem for problem in found.problems)


def test_a_second_run_or_try_of_a_report_is_a_duplicate(story: Story) -> None:
    run = next(run for run in story["runs"] if run["date"] == FIRST)
    story["runs"].append({**run, "run_id": "again"})
    run["tries"]["daily_report"] = 2
    found = verdict(story)
    assert found.duplicates == 2


def test_a_wait_resumed_twice_is_a_duplicate(story: Story) -> None:
    run = story["runs"][0]
    run["resumed_ms"] = run["resumed_ms"] * 2
    assert verdict(story).duplicates == 1


def test_a_failed_run_is_a_problem_with_the_states_of_its_tasks(story: Story) -> None:
    run = next(run for run in story["runs"] if run["date"] == FIRST)
    run.update(state="failed", task_states={"ready": "failed", "daily_report": "upstream_failed"})
    expected = f"{FIRST}: daily_report is failed (daily_report upstream_failed, ready failed)"
    assert expected in verdict(story).problems


def test_the_log_of_a_deferred_task_has_the_time_of_its_resumption() -> None:
    (resumed_ms,) = resumptions(RECORDED["log"])
    assert resumed_ms == RECORDED["runs"][0]["resumed_ms"][0]


def test_the_log_of_a_waiting_task_has_no_resumption() -> None:
    until = next(n for n, line in enumerate(RECORDED["log"]) if line["event"].startswith("Pausing task"))
    assert resumptions(RECORDED["log"][: until + 1]) == ()
