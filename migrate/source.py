"""The Python of subscriptions: a DAG file with one `deliver_dag(...)` for each."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ..conditions import Condition
from ..conditions.filters.filter import quoted
from .subscription import Subscription

# Airflow looks for DAGs only in files with the words "dag" and "airflow".
_DOCSTRING: Final = '"""DAGs that keep sinks registered, made by `airflow interlock migrate`."""'
_FILTERS: Final = ("All", "Any", "Exact", "Not", "Prefix", "Sql", "Suffix")
_WORD: Final = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|\b([A-Za-z_]\w*)(?=\()""")


def dag_file(found: Iterable[Subscription]) -> str:
    """Returns a DAG file that makes the same subscriptions; "" if there are none."""
    made = [each for each in found if each.condition is not None]
    if not made:
        return ""
    calls = [_call(each) for each in made]
    conditions = [each.condition for each in made if each.condition is not None]
    return "\n".join((_DOCSTRING, "", *_imports(conditions), "", *calls))


def call(subscription: Subscription) -> str:
    """Returns the `deliver_dag(...)` of one subscription; "" if it has no condition."""
    return "" if subscription.condition is None else _call(subscription).rstrip("\n")


def _imports(conditions: Iterable[Condition]) -> Iterator[str]:
    functions, filters = set[str](), set[str]()
    for each in conditions:
        for text, name in _WORD.findall(str(each)):
            if not text:
                (filters if name in _FILTERS else functions).add(name)
    yield f"from interlock import {', '.join(sorted(functions))}"
    if filters:
        yield f"from interlock.conditions.filters import {', '.join(sorted(filters))}"
    yield "from interlock.operators import deliver_dag"


def _call(subscription: Subscription) -> str:
    lines = [f"{_variable(subscription.name)} = deliver_dag("]
    lines.append(f"    {quoted(subscription.name)},")
    lines.append(f"    condition={subscription.condition},")
    lines.append(f"    conn_id={quoted(subscription.conn_id)},")
    lines += [f"    {name}={_value(value)}," for name, value in subscription.arguments.items()]
    return "\n".join((*lines, ")", ""))


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{quoted(name)}: {_value(each)}" for name, each in value.items()) + "}"
    return quoted(value) if isinstance(value, str) else repr(value)


def _variable(name: str) -> str:
    found = re.sub(r"\W", "_", name)
    return f"_{found}" if found[:1].isdigit() or keyword.iskeyword(found) else found
