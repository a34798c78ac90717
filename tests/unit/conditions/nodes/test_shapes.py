"""Keys that can never be equal (K39): two sides of a condition that must both be met."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from interlock import at_least, count, dag_run, day, event, hour, month, param, sequence, task_instance, week
from interlock.conditions import Condition, ConditionError
from interlock.conditions.filters import Prefix
from interlock.conditions.nodes.shapes import check_keys_meet

BERLIN = "Europe/Berlin"


def by(path: Any, name: str = "t", **more: Any) -> Any:
    return event(name, by=path, **more)


DAY, WEEK = day("data.d", tz=BERLIN), week("data.d", tz=BERLIN)

NEVER: dict[str, Callable[[], Condition]] = {
    "day and week": lambda: by(DAY) & by(WEEK, "u"),
    "day and hour": lambda: by(DAY) & by(hour("data.d", tz=BERLIN), "u"),
    "hours that begin at other minutes": lambda: (
        by(hour("data.d", tz=BERLIN)) & by(hour("data.d", tz="Asia/Kolkata"), "u")
    ),
    "a time within an hour": lambda: (
        by("subject", subject="2026-11-20T05:30:00Z") & by(hour("data.d", tz=BERLIN), "u")
    ),
    "week and month": lambda: by(WEEK) & by(month("data.d", tz=BERLIN), "u"),
    "ds and logical_date": lambda: dag_run("a", by="ds") & dag_run("b", by="logical_date"),
    "ds and logical_date plus a day": lambda: dag_run("a", by="ds") & dag_run("b", offset="1d"),
    "states": lambda: (
        dag_run("a", by="ds", state=["success", "failed"]) & task_instance("b", "c", by="logical_date")
    ),
    "a prefix of the type": lambda: (
        event(filters=[Prefix(type="interlock.airflow.dag_run.")], by="data.ds") & by("data.d + 2h")
    ),
    "ds of the events": lambda: event("interlock.airflow.dag_run.failed", by="ds") & by(WEEK),
    "time and day": lambda: by("time") & by(DAY, "u"),
    "part of a day later": lambda: by("data.d + 2h") & by(DAY, "u"),
    "known values": lambda: by("subject", subject="eu") & by("subject", "u", subject="us"),
    "a member that where fixes": lambda: (
        by("data.r", where="data.r == 'eu' && data.x > 1") & by("data.r", "u", where="data.r == 'us'")
    ),
    "an attribute that where fixes": lambda: by("subject", where="event.subject == 'eu'") & by(DAY, "u"),
    "a known value and a day": lambda: by("subject", subject="eu") & by(DAY, "u"),
    "composite": lambda: by(["subject", DAY]) & by(["data.x", WEEK], "u"),
    "sequence": lambda: sequence(by(DAY), by(WEEK, "u")),
    "in a window": lambda: (by(DAY) & by(WEEK, "u")).within("1h"),
    "a negation": lambda: (by(DAY) & ~by(WEEK, "u")).within("1h"),
    "count": lambda: count(by(DAY), 2) & by(WEEK, "u"),
    "below or": lambda: (by(DAY) & by(WEEK, "u")) | by(DAY, "v"),
    "two of three": lambda: at_least(2, by(DAY), by(WEEK, "u"), by(month("data.d", tz=BERLIN), "v")),
    "expiry": lambda: (by(DAY) & by(WEEK, "u")).expires(after="1h"),
}
MAY: dict[str, Callable[[], Condition]] = {
    "the same": lambda: by(DAY) & by(day("data.e", tz="Asia/Tokyo"), "u"),
    "a zone that is put in later": lambda: by(day("data.d")) & by(DAY, "u"),
    "unknown": lambda: by("data.d") & by(DAY, "u") & by("subject", "v"),
    "a number and its text": lambda: (
        by("data.n", where="data.n == 7") & by("data.n", "u", where="data.n == '7'")
    ),
    "spellings of a day": lambda: (
        by("data.d", where="data.d == 20261120") & by("data.d", "u", where="data.d == '2026-11-20'")
    ),
    "one of two values": lambda: by("data.r", where="data.r == 'eu' || data.r == 'us'") & by(DAY, "u"),
    "a parameter of where": lambda: by("data.r", where="data.r == param.r") & by(DAY, "u"),
    "a day plus a day": lambda: by("data.d + 1d") & by(DAY, "u"),
    "a time plus a day": lambda: by("data.d + 1d") & by("time", "u"),
    "hour and time": lambda: by(hour("data.d", tz=BERLIN)) & dag_run("b", by="logical_date"),
    "hours of two zones": lambda: (
        by(hour("data.d", tz=BERLIN)) & by(hour("data.d", tz="America/New_York"), "u")
    ),
    "hours that begin together in one half of the year": lambda: (
        by(hour("data.d", tz=BERLIN)) & by(hour("data.d", tz="Australia/Lord_Howe"), "u")
    ),
    "a known hour": lambda: (
        by("subject", subject="2026-11-20T05:30:00Z") & by(hour("data.d", tz="Asia/Kolkata"), "u")
    ),
    "an hour of a zone that is put in later": lambda: (
        by(hour("data.d")) & by(hour("data.d", tz="Asia/Kolkata"), "u")
    ),
    "an hour and a known day, or an hour": lambda: (
        by(hour("data.d", tz=BERLIN)) & (by("time", "u") | by(DAY, "v"))
    ),
    "ds and a day": lambda: dag_run("a", by="ds") & by(DAY, "u"),
    "ds of other events": lambda: by("data.ds") & dag_run("b", by="logical_date"),
    "or": lambda: by(DAY) | by(WEEK, "u"),
    "or beside and": lambda: (by(DAY) | by(WEEK, "u")) & by(WEEK, "v"),
    "two of three": lambda: at_least(2, by(DAY), by(WEEK, "u"), by(WEEK, "v")),
    "without a key": lambda: by(DAY) & event("u"),
    "a known day": lambda: by("subject", subject="20261120") & by(DAY, "u"),
    "a parameter": lambda: by("subject", subject=param("day")) & by(DAY, "u"),
    "known values": lambda: by("subject", subject="eu") & by("subject", "u", subject="eu"),
    "composite": lambda: by(["subject", DAY]) & by(["data.x", "data.y"], "u"),
    "partition_key": lambda: dag_run("a", by="partition_key") & by(WEEK, "u"),
    "dates": lambda: dag_run("a", dates={"2026-11-23": "2026-11-20"}) & by(DAY, "u"),
}


@pytest.mark.parametrize("name", NEVER)
def test_two_sides_whose_keys_are_never_equal_are_an_error_that_names_both(name: str) -> None:
    """K39: they parsed, and waited for ever."""
    with pytest.raises(
        ConditionError, match=r"by=.* reads .*, and by=.* reads .*: these keys are never equal"
    ):
        check_keys_meet(NEVER[name]())


@pytest.mark.parametrize("name", MAY)
def test_keys_that_may_be_equal_are_no_error(name: str) -> None:
    check_keys_meet(MAY[name]())


def test_the_error_says_what_to_write() -> None:
    with pytest.raises(ConditionError, match=r'such as by=day\("data.logical_date", tz="Europe/Berlin"\)$'):
        check_keys_meet(dag_run("a", by="logical_date") & dag_run("b", by=day("logical_date", tz=BERLIN)))


@pytest.mark.parametrize(
    "matcher",
    [
        lambda: dag_run("a", by="ds", offset="2h"),
        lambda: event("interlock.airflow.dag_run.succeeded", by=hour("data.ds", tz="UTC")),
    ],
    ids=["hours later", "hour"],
)
def test_a_matcher_that_never_has_a_key_is_an_error(matcher: Callable[[], Condition]) -> None:
    with pytest.raises(ConditionError, match="never has a key: a day has no hour"):
        check_keys_meet(matcher())


def test_a_large_condition_costs_little() -> None:
    """Each `&` of alternatives multiplies them: beyond a thousand nothing is known."""
    sides = []
    for number in range(4):
        paths = [["subject", f"x{each}"] for each in range(4)]
        paths[number % 2] = ["data.a", "data.b"]
        alternatives = [by(path, f"t{number}-{each}", subject=f"{each}") for each, path in enumerate(paths)]
        sides.append(alternatives[0] | alternatives[1] | alternatives[2] | alternatives[3])
    check_keys_meet(sides[0] & sides[1] & sides[2] & sides[3])
