"""Jinja templates in the texts of a condition: they are never rendered, so they are errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ...events.attributes import shown
from ..errors import ConditionError
from .param import ParamExact

if TYPE_CHECKING:
    from .condition import Condition
    from .matcher import Matcher

_SIGNS: Final = ("{{", "{%")
# Instead of a dataset that differs from run to run; how an event names its datasets: events/openlineage.py.
DATASET_PARAMETER: Final = (
    """write event("openlineage.run.complete", where="event.outputs.contains(' ' + param.dataset + ' ')"),"""
    " and param_values={'dataset': 'NAMESPACE|NAME'}, percent-encoded, in the task"
)
_PARAM_IN_TEXT: Final = re.compile(r"""param\(\\?"[A-Za-z_][A-Za-z0-9_]*\\?"\)""")


def is_template(text: str) -> bool:
    """True if Jinja would render the text."""
    return any(sign in text for sign in _SIGNS)


def check_no_template(caller: str, argument: str, text: object) -> None:
    """Raises ConditionError with what to write instead, if the text is a template, or holds a parameter."""
    if isinstance(text, str) and is_template(text):
        raise ConditionError(
            f"{caller}({argument}={shown(text, 200)}): a condition is not rendered, so no event can match"
            f" this template. {_instead(caller, argument, text)}"
        )
    if isinstance(text, str) and "param(" in text and (found := _PARAM_IN_TEXT.search(text)):
        raise ConditionError(
            f"{caller}({argument}={shown(text, 200)}): {found[0]} cannot be a part of a text: give the whole"
            " text as the parameter's value; in where, write param.name"
        )


def check_templates(condition: Condition) -> None:
    """Raises ConditionError if a text of a matcher is a template."""
    for matcher in condition.matchers:
        for argument, text in _texts(matcher):
            check_no_template("event", argument, text)
    for paths in condition.distinct_of.values():
        for path in (paths,) if isinstance(paths, str) else paths or ():
            check_no_template("count", "distinct", path)


def _texts(matcher: Matcher) -> Iterator[tuple[str, str]]:
    yield from matcher.exact
    if matcher.where is not None:
        yield "where", matcher.where.source
    for path in (matcher.by,) if isinstance(matcher.by, str) else matcher.by or ():
        yield "by", path
    if matcher.label is not None:
        yield "label", matcher.label
    for each in matcher.filters:
        if not isinstance(each, ParamExact):
            yield "filters", str(each)


def _instead(caller: str, argument: str, text: str) -> str:
    if caller == "dataset_written" and argument in ("namespace", "name"):
        return f"W{DATASET_PARAMETER[1:]}"
    if argument in ("by", "label", "distinct"):
        return f"Write {argument}= as a fixed text; what differs from run to run is key= of the task"
    if argument in ("dag_id", "task_id", "name", "job", "namespace", "deployment", "application"):
        return (
            'Write event(type=..., subject=param("x")), or source=param("x"), and'
            f" param_values={{'x': {shown(text, 80)}}} in the task"
        )
    if argument in ("where", "filters"):
        path, param = "data.day", 'where="data.day == param.day"'
    else:
        path, param = argument, f'{argument}=param("day")'
    template = text[text.find("{") :][:80] if argument not in ("where", "filters") else "{{ ds }}"
    return (
        f'If it is the value by which events belong together, write by="{path}" here and'
        f" key={shown(template)} in the task. Else write {param}, and"
        f" param_values={{'day': {shown(template)}}} in the task"
    )
