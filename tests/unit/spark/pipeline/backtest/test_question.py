"""The questions of a backtest, and the errors for wrong ones."""

from __future__ import annotations

import pickle

import pytest
from interlock.conditions import EMPTY, ConditionError, absent, event, opened
from interlock.engine.protocol.context import TTL_MS as ENGINES_TTL_MS
from interlock.spark.pipeline.backtest.question import TTL_MS, Question, condition_of

A, B = event("a", by="subject"), event("b", by="subject")


def test_the_ttl_is_the_engines() -> None:
    assert TTL_MS == ENGINES_TTL_MS


def test_a_question_can_be_sent_to_executors_with_its_condition() -> None:
    question = Question.of((A & B).within("1h"), "k", since_ms=5)
    assert pickle.loads(pickle.dumps(question)) == question
    assert question.condition == (A & B).within("1h")


def test_each_key_begins_empty_when_events_bring_it() -> None:
    question = Question.of((A & B).expires(after="1h"))
    assert (question.known_key, question.runs_from_the_start) == (None, False)
    assert question.first_state() == EMPTY


@pytest.mark.parametrize("key", [None, "k"])
def test_timers_of_a_known_key_run_from_since(key: str | None) -> None:
    condition = (A if key else event("a")) & (B if key else event("b"))
    question = Question.of(condition.expires(after="1h"), key, since_ms=7)
    assert question.known_key == (key or "")
    assert question.first_state() == opened(question.condition, 7, 7)


def test_a_wait_ends_with_its_first_firing_whether_its_key_is_known_or_not() -> None:
    assert Question.of(A, "k").once
    assert Question.of(event("a"), once=True).once
    assert not Question.of(A).once


def test_timers_that_run_from_the_start_need_one() -> None:
    with pytest.raises(ConditionError, match="give --since"):
        Question.of(absent(event("a"), "1h", armed_by="subscription"))


def test_a_key_must_fit_the_condition() -> None:
    with pytest.raises(ConditionError, match="no matcher reads one"):
        Question.of(event("a"), "k")


def test_a_condition_is_read_from_text_or_from_a_module() -> None:
    assert condition_of("event('a', by='subject')", None, "condition") == A
    assert condition_of(None, f"{__name__}:A", "condition") == A


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        (None, None, "give either --condition or --condition-from"),
        ("event('a')", "x:y", "give either --condition or --condition-from"),
        (None, "json", "write MODULE:NAME"),
        (None, "json:ready", "has no attribute 'ready'"),
        (None, "no.such:ready", "No module named"),
        (None, "json:dumps", "is of type function"),
        ("event(", None, "line 1"),
    ],
)
def test_what_is_not_a_condition_is_an_error_that_says_why(
    text: str | None, path: str | None, message: str
) -> None:
    with pytest.raises(ConditionError, match=message):
        condition_of(text, path, "condition")


@pytest.mark.parametrize("path", [".dags:ready", "..dags:ready", ".:ready", "...:a.b"])
def test_a_module_that_is_relative_to_nothing_is_refused(path: str) -> None:
    with pytest.raises(ConditionError, match=r"--condition-from .*: write MODULE:NAME"):
        condition_of(None, path, "condition")
