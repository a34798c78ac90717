"""A `fail_on` beside which the condition can never be met is an import error."""

from __future__ import annotations

import pytest
from interlock import absent, count, dag_run, event, param
from interlock.conditions import Condition, ConditionError
from interlock.conditions.nodes.refuted import check_fail_on
from interlock.operators import EventSensor

RATES = dag_run("rates", by="ds")
ONLY_FAILS: dict[str, tuple[Condition, Condition]] = {
    "state is missing": (RATES, RATES),
    "any state": (RATES, dag_run("rates", by="ds", state=["success", "failed"])),
    "one of two": (RATES & dag_run("fx", by="ds"), RATES),
    "each side of |": (RATES | dag_run("fx", by="ds"), RATES | dag_run("fx", by="ds")),
    "several": (count(RATES, 2), RATES),
    "a window with a negation": ((RATES & ~dag_run("fx", by="ds")).within("1h"), RATES),
    "quiet": (RATES.quiet("1h"), RATES),
    "watched from its first event": (absent(RATES, "1h"), RATES),
}
MAY_SUCCEED: dict[str, tuple[Condition, Condition]] = {
    "failures": (RATES, dag_run("rates", by="ds", state="failed")),
    "another run": (RATES, dag_run("fx", by="ds")),
    "one side of |": (RATES | dag_run("fx", by="ds"), RATES),
    "an expiry": (RATES.expires(after="1h"), RATES),
    "watched from the start": (absent(RATES, "1h", armed_by="subscription"), RATES),
    "a negated event": ((dag_run("fx", by="ds") & ~RATES).within("1h"), RATES),
    "two events": (RATES, count(RATES, 2)),
    "another key": (RATES, dag_run("rates", by="data.logical_date + 1d")),
}


@pytest.mark.parametrize("name", ONLY_FAILS)
def test_a_fail_on_that_is_met_by_what_the_condition_requires_is_an_error(name: str) -> None:
    """Each run failed as soon as what it waited for had come."""
    condition, fail_on = ONLY_FAILS[name]
    with pytest.raises(ConditionError, match=r"the wait could only fail\. Give the events of failures"):
        check_fail_on(condition, fail_on)
    with pytest.raises(ConditionError, match=r"EventSensor 'w': fail_on .* is met by each event of"):
        EventSensor(task_id="w", condition=condition, fail_on=fail_on, key="2026-11-20")


def test_values_of_parameters_that_are_known_count() -> None:
    """Of those that a template gives, the same parameter on both sides is known to be the same."""
    either, market = event("a", subject=param("s")), {"s": "{{ params.market }}"}
    for condition, given in (
        (event("a", subject="us"), {"s": "us"}),
        (either, {"s": "us"}),
        (either, market),
    ):
        with pytest.raises(ConditionError, match="the wait could only fail"):
            EventSensor(task_id="w", condition=condition, fail_on=either, param_values=given)
    for given in ({"s": "eu"}, market):
        EventSensor(task_id="w", condition=event("a", subject="us"), fail_on=either, param_values=given)


@pytest.mark.parametrize("name", MAY_SUCCEED)
def test_a_fail_on_beside_which_the_condition_may_be_met_is_no_error(name: str) -> None:
    check_fail_on(*MAY_SUCCEED[name])
