"""Checks of the arguments of recipes, and the matcher that they build."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final, TypeAlias

from ...events.attributes import shown
from ...events.completions import AIRFLOW_ID
from ..errors import ConditionError
from ..filters import Any, Exact, Filter
from ..filters.filter import checked_text, quoted
from ..nodes.duration import duration_ms
from ..nodes.matcher import Matcher, event
from ..nodes.param import Param
from ..nodes.paths import DATA, parse_path
from ..nodes.templates import DATASET_PARAMETER, check_no_template, is_template

MAX_NAME_CHARS: Final = 1000

State: TypeAlias = str | Sequence[str]
By: TypeAlias = str | Sequence[str]
Offset: TypeAlias = timedelta | str


def matcher(
    types: tuple[str, ...],
    subject: str,
    source: str | None,
    by: By | None,
    label: str | None,
    days: tuple[str, ...] = (),
    where: str | None = None,
) -> Matcher:
    """The matcher for events of one of these types; days: it accepts only those with one of these `ds`."""
    filters = [one_of("type", types)] if len(types) > 1 else []
    if days:
        filters.append(one_of("ds", days))
    return event(
        types[0] if len(types) == 1 else None,
        subject=subject,
        source=source,
        by=by,
        label=label,
        filters=filters or None,
        where=where,
    )


def one_of(name: str, values: tuple[str, ...]) -> Filter:
    """The filter for an attribute with one of these values."""
    exact = [Exact(**{name: value}) for value in values]
    return exact[0] if len(exact) == 1 else Any(*exact)


def types_of(who: str, known: Mapping[str, str], state: State) -> tuple[str, ...]:
    """The event types of a state, or of several. known: {state: type}. Raises ConditionError for others.

    who: the recipe's name, for the message; also below.
    """
    states = (state,) if isinstance(state, str) else state
    if not isinstance(states, (list, tuple)) or not states:
        raise ConditionError(
            f"{who}(state={shown(state)}): give one of {', '.join(known)}, or a list of them"
        )
    for each in states:
        if not isinstance(each, str) or each not in known:
            raise ConditionError(f"{who}(state={shown(each)}): give one of {', '.join(known)}")
    return tuple(dict.fromkeys(known[each] for each in states))


def checked_name(who: str, argument: str, value: object, most: int = MAX_NAME_CHARS) -> str:
    """The name given for an argument. Raises ConditionError for a parameter, a template, and no text."""
    if isinstance(value, Param):
        instead = f"write event(type=..., subject={value!s})"
        if who == "dataset_written":
            instead = DATASET_PARAMETER
        raise ConditionError(
            f"{who}({argument}={value!s}): a parameter stands for a whole attribute of an event: {instead}"
        )
    if not isinstance(value, str) or not value:
        raise ConditionError(f"{who}: {argument} is {shown(value)}: give a name")
    if "\0" in value:
        raise ConditionError(f"{who}: {argument} is {shown(value)}: give a name without NUL")
    check_no_template(who, argument, value)
    return checked_text(who, argument, value, most)


def checked_id(who: str, argument: str, value: object) -> str:
    """The id of a DAG or task. Raises ConditionError also for one that Airflow does not take."""
    name = checked_name(who, argument, value)
    if "*" not in name and not AIRFLOW_ID.fullmatch(name):  # for "*" `refuse_wildcard` has more to say
        raise ConditionError(
            f"{who}: {argument} is {shown(value)}: Airflow has no such id. It takes letters, digits, '_', '-'"
            " and '.', at most 250"
        )
    return name


def refuse_wildcard(
    who: str, argument: str, subject: str, types: tuple[str, ...], by: str = "data.ds"
) -> None:
    """Raises ConditionError for a subject with a wildcard, with what to write instead."""
    if "*" not in subject:
        return
    if subject.index("*") == len(subject) - 1 > 0:
        instead = f"filters=[Prefix(subject={quoted(subject[:-1])})]"
    elif not subject.strip("*/"):
        instead = ""
    else:
        pattern = re.sub(r"[^A-Za-z0-9_*/-]", ".", subject).replace("*", "[^/]*")
        predicate = f"event.subject.matches('^{pattern}$')"
        instead = f"where={quoted(predicate)}"
    written = ", ".join(each for each in (f"type={quoted(types[0])}", instead) if each)
    raise ConditionError(
        f"{who}({argument}={shown(subject)}): * is not a wildcard. For several of them write"
        f" event({written}), with by= as a path such as {quoted(by)}"
    )


def check_path(who: str, by: object, attributes: frozenset[str], members: frozenset[str] | None) -> None:
    """Raises ConditionError for a path that no such event has, with what to write instead.

    members: of the data; None if they are not known.
    """
    if not isinstance(by, str) or is_template(by):
        return  # event() says what is wrong
    base = parse_path(by).base
    if not base.startswith(DATA):
        if base not in attributes:
            of_data = members is None or base in members
            hint = f' For the member of its data write by="data.{base[:80]}".' if of_data else ""
            raise ConditionError(
                f"{who}: by={quoted(by[:100])}: its events have no attribute {shown(base)}.{hint}"
                f" They have {', '.join(sorted(attributes))}."
            )
    elif members is not None and (member := base.removeprefix(DATA).split(".")[0]) not in members:
        raise ConditionError(
            f"{who}: by={quoted(by[:100])}: the data of its events have no member {shown(member)}. They have"
            f" {', '.join(sorted(members))}."
        )


def as_timedelta(who: str, offset: object) -> timedelta:
    """`offset=` as a timedelta. Raises ConditionError for anything but a timedelta and a duration's text."""
    if isinstance(offset, str) and not offset.startswith("-"):
        return timedelta(milliseconds=duration_ms(f"{who}: offset", offset, zero=True))
    if not isinstance(offset, timedelta):
        raise ConditionError(
            f"{who}: offset is {shown(offset)}: give a timedelta, or a text such as '1d'. Earlier is"
            " positive: '1d' is a day before the key, timedelta(days=-1) a day after it"
        )
    return offset
