"""The Python of subscriptions: a DAG file with one `deliver_dag(...)` or `dispatch_dag(...)` for each."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ..conditions.filters.filter import quoted
from .subscription import Subscription

# Airflow looks for DAGs only in files with the words "dag" and "airflow".
_DOCSTRING: Final = '"""DAGs made by `airflow interlock migrate`."""'
_FILTERS: Final = ("All", "Any", "Exact", "Not", "Prefix", "Sql", "Suffix")
# A text in quotes, or else the name of a function that is called.
_TEXT_OR_CALL: Final = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?<![.\w])([A-Za-z_]\w*)(?=\()""")


def dag_file(found: Iterable[Subscription]) -> str:
    """Returns a DAG file that makes the same subscriptions; "" if there are none."""
    made = [each for each in found if each.condition is not None]
    if not made:
        return ""
    calls = [_call(each) for each in made]
    return "\n".join((_DOCSTRING, "", *_imports(made), "", *calls))


def call(subscription: Subscription) -> str:
    """Returns the call that makes one subscription; "" if it has no condition."""
    return "" if subscription.condition is None else _call(subscription).rstrip("\n")


def _imports(made: Iterable[Subscription]) -> Iterator[str]:
    functions, filters = set[str](), set[str]()
    for each in made:
        for text, name in _TEXT_OR_CALL.findall(str(each.condition)):
            if not text:
                (filters if name in _FILTERS else functions).add(name)
    yield f"from interlock import {', '.join(sorted(functions))}"
    if filters:
        yield f"from interlock.conditions.filters import {', '.join(sorted(filters))}"
    yield f"from interlock.operators import {', '.join(sorted({each.function for each in made}))}"


def _call(subscription: Subscription) -> str:
    lines = [f"{_variable(subscription.name)} = {subscription.function}("]
    lines.append(f"    {quoted(subscription.name)},")
    lines.append(f"    condition={subscription.condition},")
    if subscription.conn_id is not None:
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
