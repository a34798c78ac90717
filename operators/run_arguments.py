"""Renders the arguments of `dispatch_dag` for the run of a firing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ..conditions import Condition, ConditionError, canonical_key
from ..conditions.nodes.templates import is_template
from ..engine.records import FiringRecord
from ..engine.records.firing_form import firing_form
from ..events.attributes import shown
from ..events.unwritable import repeats_a_name, unwritable
from ..triggers.argument_checks import ArgumentChecks, templates_in
from ..triggers.firing_json import json_text
from .firing_members import unknown_member
from .target import RunRefused
from .templates import check_defined, is_missing

if TYPE_CHECKING:
    from airflow.sdk import Context
    from jinja2 import Environment

MAX_CONF_BYTES: Final = 64 * 1024
MAX_TEMPLATE_CHARS: Final = 10_000
MAX_CONF_LEVELS: Final = 100  # Airflow renders each level by a function's call; many levels fail
MAX_NOTE_CHARS: Final = 1000  # limit of Airflow's table
# Airflow sends conf in msgpack, which has no other integers.
_LEAST: Final = -(2**63)
_MOST: Final = 2**64 - 1
_WHOLE_KEY: Final = re.compile(r"\{\{\s*firing\.(?:canonical_)?key\s*\}\}")
_MONTH: Final = re.compile(r"[0-9]{4}-[0-9]{2}")


@dataclass(frozen=True)
class RunTemplates:
    """The templates of `dispatch_dag` for a run of the target."""

    conf: Mapping[str, Any] | None
    logical_date: str | None
    note: str | None
    partition_key: str | None

    def check(
        self, checks: ArgumentChecks, environment: Callable[[], Environment] | None, condition: Condition
    ) -> None:
        """Raises ValueError for what no firing of the condition could use.

        environment: as for `ArgumentChecks.templates`.
        """
        if self.conf is not None:
            self._check_conf(checks)
        for name in ("logical_date", "note", "partition_key"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                checks.fail(name, value, "a text, which may be a template")
            give = "a text, which may be a template"
            checks.text(name, value, give, none=True, most=MAX_TEMPLATE_CHARS, empty=name == "note")
            if value is not None and is_template(value):
                try:
                    json_text(value)  # templates in it render to anything, the text around them stays
                except ValueError:
                    checks.refuse(name, value, f"{give}, without NUL and lone surrogates")
        for name in ("conf", "logical_date", "note", "partition_key"):
            checks.templates(name, getattr(self, name), environment)
            for text in templates_in(getattr(self, name)):
                if (wrong := unknown_member(text, condition)) is not None:
                    checks.refuse(name, text, f"members that a firing has ({wrong})")
        if self.logical_date is not None:
            self._check_date(checks, self.logical_date, condition)

    def _check_date(self, checks: ArgumentChecks, date: str, condition: Condition) -> None:
        if condition.key_parts > 1 and _WHOLE_KEY.fullmatch(date):
            give = (
                "a date: this key has several values; read one of them in an event, as firing.events.LABEL[0]"
            )
            checks.refuse("logical_date", date, give)
        if not is_template(date):
            try:
                _moment(date)
            except RunRefused:
                checks.fail("logical_date", date, "an ISO 8601 date, or a template")

    def _check_conf(self, checks: ArgumentChecks) -> None:
        give = "a dict of names and JSON values, whose texts may be templates"
        if not isinstance(self.conf, Mapping) or not all(isinstance(name, str) for name in self.conf):
            checks.fail("conf", self.conf, give)
        for name, value in self.conf.items():
            try:
                size = len(_conf_json({name: value}, "conf"))
            except (TypeError, ValueError, RecursionError) as e:
                checks.fail(f"conf[{shown(name)}]", value, f"a JSON value ({e})")
            if size > MAX_CONF_BYTES:
                checks.fail(f"conf[{shown(name)}]", f"{size} bytes", f"at most {MAX_CONF_BYTES}")
            if _is_deep(value):
                checks.fail(f"conf[{shown(name)}]", value, f"a value of at most {MAX_CONF_LEVELS} levels")
        size = len(json_text(_shortest(self.conf)))
        if size > MAX_CONF_BYTES:
            checks.fail("conf", f"{size} bytes without its templates", f"at most {MAX_CONF_BYTES} in all")


def run_arguments(
    firing: FiringRecord, context: Context, render: Callable[[Any, Any], Any], templates: RunTemplates
) -> dict[str, Any]:
    """Returns the arguments of `Target.create` for the firing's run. Raises RunRefused if one is not usable.

    render: renders a template, given the template and its context.
    """
    form = firing_form(firing)
    # The two that a firing's form may lack: a template must not fail for the firings without them.
    members = {"canonical_key": firing.key, "left_out": {}, **form}
    template_context: Any = {**context, "firing": members}

    def rendered(argument: str, template: Any, render: Callable[[Any, Any], Any] = render) -> Any:
        try:
            value = render(template, template_context)
            check_defined(value)
            if argument.startswith("conf"):
                _conf_json(value)
            else:
                json_text(str(value) if isinstance(value, datetime) and argument == "logical_date" else value)
        except Exception as e:  # a template may raise anything
            labels = ", ".join(firing.events) or "none"
            raise RunRefused(
                f"the template of {argument} failed: {type(e).__name__}: {e}. The firing has events with"
                f" these labels: {labels}. Correct the template; until then the firing is held"
            ) from e
        return value

    if templates.conf is None:
        given = rendered("conf", form, lambda whole, _: whole)  # event data must not be rendered
    else:
        given = {name: rendered(f"conf[{name!r}]", each) for name, each in templates.conf.items()}
    date = rendered("logical_date", templates.logical_date)
    note = rendered("note", templates.note)
    partition_key = rendered("partition_key", templates.partition_key)
    if is_missing(templates.partition_key, partition_key, ("None", None)):
        raise RunRefused(
            "the template of partition_key gave 'None': the firing has no such value. Use one that every"
            " firing has, or let the template give an empty text for a run without a partition key"
        )
    size = len(json_text(given))
    if size > MAX_CONF_BYTES:
        raise RunRefused(f"its conf has {size} bytes, and the limit is {MAX_CONF_BYTES}")
    return {
        "run_id": f"dispatch__{firing.id}",
        "conf": given,
        "logical_date": None if date in (None, "") else _moment(date),
        "note": None if note is None else str(note)[:MAX_NOTE_CHARS],
        "partition_key": None if partition_key in (None, "") else str(partition_key),
    }


def _conf_json(conf: Any, root: str = "it") -> str:
    """Returns conf, or a value of it, as JSON.

    Raises as `json_text`, and ValueError for a large integer and for a name twice. root: its name in errors.
    """
    text, left = json_text(conf), [conf]
    if repeats_a_name(conf):
        raise ValueError(unwritable(conf, root) or "a dict has two names that JSON writes as the same text")
    while left:
        value = left.pop()
        if isinstance(value, Mapping):
            left += [*value, *value.values()]
        elif isinstance(value, (list, tuple)):
            left += value
        elif isinstance(value, int) and not _LEAST <= value <= _MOST:
            raise ValueError(f"the integer {value} has more than 64 bits; give it as a text")
    return text


def _is_deep(value: Any) -> bool:
    """Returns whether lists and dicts lie in more than MAX_CONF_LEVELS levels."""
    left = [(value, 0)]
    while left:
        each, level = left.pop()
        if isinstance(each, (Mapping, list, tuple)):
            if level == MAX_CONF_LEVELS:
                return True
            inner = each.values() if isinstance(each, Mapping) else each
            left += [(one, level + 1) for one in inner]
    return False


def _shortest(value: Any) -> Any:
    """Returns the value with a digit in place of each template: no template can render to less JSON."""
    if isinstance(value, str):
        return 0 if is_template(value) else value
    if isinstance(value, Mapping):
        return {name: _shortest(each) for name, each in value.items()}
    return list(map(_shortest, value)) if isinstance(value, (list, tuple)) else value


def _date_text(text: str) -> str:
    """Returns the canonical form of a date or time; for a month (2026-11) its first day."""
    return f"{text}-01" if _MONTH.fullmatch(text) else canonical_key(text)


def _moment(given: object) -> datetime:
    """Returns the time of a rendered template, in UTC if it has no zone. Raises RunRefused."""
    try:
        # in its canonical form, because keys come as events write them, in any form of ISO 8601
        moment = given if isinstance(given, datetime) else datetime.fromisoformat(_date_text(str(given)))
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ConditionError, ValueError, OverflowError):
        raise RunRefused(
            f"logical_date is {str(given)[:100]!r}; it must be an ISO 8601 date of the years 1 to 9999 in UTC"
        ) from None
