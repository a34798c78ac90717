"""The Python of subscriptions: a DAG file with one `deliver_dag(...)` for each."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ..conditions import Condition
from ..conditions.filters.filter import quoted
from .subscription import Subscription

_FILTERS: Final = ("All", "Any", "Exact", "Not", "Prefix", "Sql", "Suffix")
_WORD: Final = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|\b([A-Za-z_]\w*)(?=\()""")


def dag_file(found: Iterable[Subscription]) -> str:
    """Returns a DAG file that makes the same subscriptions; "" if there are none."""
    made = [each for each in found if each.condition is not None]
    if not made:
        return ""
    calls = [_call(each) for each in made]
    conditions = [each.condition for each in made if each.condition is not None]
    return "\n".join((*_imports(conditions, any("retry" in each.arguments for each in made)), "", *calls))


def call(subscription: Subscription) -> str:
    """Returns the `deliver_dag(...)` of one subscription; "" if it has no condition."""
    return "" if subscription.condition is None else _call(subscription).rstrip("\n")


def _imports(conditions: Iterable[Condition], has_retry: bool) -> Iterator[str]:
    functions, filters = set[str](), set[str]()
    for each in conditions:
        for text, name in _WORD.findall(str(each)):
            if not text:
                (filters if name in _FILTERS else functions).add(name)
    yield f"from interlock import {', '.join(sorted(functions))}"
    if filters:
        yield f"from interlock.conditions.filters import {', '.join(sorted(filters))}"
    if has_retry:
        yield "from interlock.engine.delivery.retry import Retry"
    yield "from interlock.operators import deliver_dag"


def _call(subscription: Subscription) -> str:
    lines = [f"{_variable(subscription.name)} = deliver_dag("]
    lines.append(f"    {quoted(subscription.name)},")
    lines.append(f"    condition={subscription.condition},")
    lines.append(f"    conn_id={quoted(subscription.conn_id)},")
    lines += [f"    {name}={_value(name, value)}," for name, value in subscription.arguments.items()]
    return "\n".join((*lines, ")", ""))


def _value(name: str, value: Any) -> str:
    if name == "retry" and isinstance(value, Mapping):
        return f"Retry({', '.join(f'{each}={_value(each, given)}' for each, given in value.items())})"
    return quoted(value) if isinstance(value, str) else repr(value)


def _variable(name: str) -> str:
    found = re.sub(r"\W", "_", name)
    return f"_{found}" if found[:1].isdigit() or keyword.iskeyword(found) else found
