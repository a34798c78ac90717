"""Refuses matchers for Interlock's own events that name a type, attribute or member no such event has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from ...events.attributes import CORE
from ...events.completions import AIRFLOW_ID, DAY, MEMBERS
from ...events.plain import TYPE as PLAIN
from ...events.taxonomy import DAG_RUN, EMITTED, TASK_INSTANCE
from ..errors import ConditionError
from ..filters.filter import quoted
from .condition import shortened
from .kinds import kinds_of
from .matcher import Matcher
from .paths import parse_path

_OWN: Final = ("interlock.airflow.", "interlock.spark.")
_ATTRIBUTES: Final = frozenset({*CORE, DAY})
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")  # Kafka's rule
# {kind of event: (how many ids its subject joins with "/", what the subject is)}
_SUBJECTS: Final = {
    "dag_run": (1, "the id of a DAG"),
    "task_instance": (2, '"dag/task", the ids of a DAG and its task'),
}
_STATES: Final = {kind: state for of_kind in (DAG_RUN, TASK_INSTANCE) for state, kind in of_kind.items()}


def check_own_event(matcher: Matcher) -> None:
    """Raises ConditionError for a matcher of Interlock's own events that none of them can match."""
    exact = dict(matcher.exact)
    wanted = exact.get("type", "")
    if wanted == PLAIN and not _TOPIC.fullmatch(exact.get("source", "topic")):
        raise ConditionError(
            f"{shortened(matcher)} accepts no event: the source of a plain record is the name of its topic,"
            " which has letters, digits, '.', '_' and '-', at most 249"
        )
    if wanted.startswith(_OWN) and wanted not in EMITTED:
        raise ConditionError(
            f"{shortened(matcher)} accepts no event: Interlock emits no type {quoted(wanted)};"
            f" {_instead(wanted)}"
        )
    members = members_of(matcher)
    if members is None:
        return
    for path in (matcher.by,) if isinstance(matcher.by, str) else matcher.by or ():
        read = parse_path(path)
        if read.members is None and read.base not in _ATTRIBUTES:
            raise ConditionError(
                f"by={quoted(path)} of {shortened(matcher)}: its events have no such attribute. They have"
                f" {', '.join(sorted(_ATTRIBUTES))}; for a member of their data write data.{read.base}"
            )
        if read.members is not None and read.members[0] not in members:
            raise ConditionError(
                f"by={quoted(path)} of {shortened(matcher)}: the data of its events have no such member. They"
                f" have {', '.join(sorted(members))}"
            )
    _check_values(matcher)
    for missing in _missing(matcher, members):
        raise ConditionError(
            f"{shortened(matcher)} accepts no event: where reads {missing}, and the data of its events have"
            f" only {', '.join(sorted(members))}"
        )


def _check_values(matcher: Matcher) -> None:
    """Raises ConditionError for a subject or state that the events of Airflow never have."""
    exact, kinds = dict(matcher.exact), kinds_of(matcher) or frozenset()
    subject = exact.get("subject")
    if subject is not None and not any(_is_subject(kind, subject) for kind in kinds):
        what = " or ".join(_SUBJECTS[kind][1] for kind in sorted(kinds))
        raise ConditionError(
            f"{shortened(matcher)} accepts no event: the subject of its events is {what}. Airflow's ids are"
            " letters, digits, '_', '-' and '.', at most 250"
        )
    state = None if matcher.where is None else matcher.where.equalities.get(("data", "state"))
    states = [_STATES[exact["type"]]] if "type" in exact else sorted({*_STATES.values()})
    if state is not None and state not in states:
        raise ConditionError(
            f"{shortened(matcher)} accepts no event: the state of its events is {' or '.join(states)}"
        )


def _is_subject(kind: str, subject: str) -> bool:
    ids = subject.split("/")
    return len(ids) == _SUBJECTS[kind][0] and all(map(AIRFLOW_ID.fullmatch, ids))


def _instead(wanted: str) -> str:
    """The type that was meant; the types of the same thing if no end of it is like the wanted one."""
    stem, _, end = wanted.rpartition(".")
    ends = {each.rpartition(".")[2]: each for each in EMITTED if each.startswith(f"{stem}.")}
    if ends and not get_close_matches(end, ends, n=1):
        return f"it emits {', '.join(map(quoted, sorted(ends.values())))}"
    [near] = get_close_matches(wanted, ends.values() or EMITTED, n=1, cutoff=0.0)
    return f"did you mean {quoted(near)}?"


def members_of(matcher: Matcher) -> frozenset[str] | None:
    """The members of the data of its events; None if it may accept other events than those of Airflow."""
    kinds = kinds_of(matcher)
    if not kinds or not kinds <= MEMBERS.keys():
        return None
    return frozenset().union(*(MEMBERS[kind] for kind in kinds))


def _missing(matcher: Matcher, members: frozenset[str]) -> Iterator[str]:
    """The members that `where` needs and that none of the events has."""
    if matcher.where is None:
        return
    for path in matcher.where.members:
        if path and path[0] not in members and matcher.where.needs(path[0]):
            yield f"data.{path[0]}"
