"""The Python of subscriptions: a DAG file with one `deliver_dag(...)` or `dispatch_dag(...)` for each."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping
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
    imports = _imports(made)
    # A variable that hides an imported name breaks the calls below it; two DAGs in one variable are one DAG.
    taken = set[str]().union(*imports.values())
    calls = [_call(each, taken) for each in made]
    lines = (f"from {module} import {', '.join(sorted(names))}" for module, names in imports.items() if names)
    return "\n".join((_DOCSTRING, "", *lines, "", *calls))


def call(subscription: Subscription) -> str:
    """Returns the call that makes one subscription; "" if it has no condition."""
    if subscription.condition is None:
        return ""
    return _call(subscription, set[str]().union(*_imports([subscription]).values())).rstrip("\n")


def _imports(made: Iterable[Subscription]) -> dict[str, set[str]]:
    """The names that the calls need from each module."""
    functions, filters = set[str](), set[str]()
    for each in made:
        for text, name in _TEXT_OR_CALL.findall(str(each.condition)):
            if not text:
                (filters if name in _FILTERS else functions).add(name)
    return {
        "interlock": functions,
        "interlock.conditions.filters": filters,
        "interlock.operators": {each.function for each in made},
    }


def _call(subscription: Subscription, taken: set[str]) -> str:
    """taken: names that the variable may not have; it is added to them."""
    variable = _variable(subscription.name)
    while variable in taken:
        variable += "_"
    taken.add(variable)
    lines = [f"{variable} = {subscription.function}("]
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
