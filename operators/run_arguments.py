"""Renders the arguments of `dispatch_dag` for the run of a firing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ..conditions import ConditionError, canonical_key
from ..engine.records import FiringRecord
from ..triggers.firing_json import firing_form, json_text
from .target import RunRefused

if TYPE_CHECKING:
    from airflow.sdk import Context

MAX_CONF_BYTES: Final = 64 * 1024
MAX_NOTE_CHARS: Final = 1000  # limit of Airflow's table


@dataclass(frozen=True)
class RunTemplates:
    """The templates of `dispatch_dag` for a run of the target."""

    conf: Mapping[str, Any] | None
    logical_date: str | None
    note: str | None
    partition_key: str | None


def run_arguments(
    firing: FiringRecord, context: Context, render: Callable[[Any, Any], Any], templates: RunTemplates
) -> dict[str, Any]:
    """Returns the arguments of `Target.create` for the firing's run. Raises RunRefused if one is not usable.

    render: renders a template, given the template and its context.
    """
    form = firing_form(firing)
    template_context: Any = {**context, "firing": form}

    def rendered(argument: str, template: Any, render: Callable[[Any, Any], Any] = render) -> Any:
        try:
            value = render(template, template_context)
            json_text(str(value) if isinstance(value, datetime) else value)
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
    size = len(json_text(given))
    if size > MAX_CONF_BYTES:
        raise RunRefused(f"its conf has {size} bytes, and the limit is {MAX_CONF_BYTES}")
    return {
        "run_id": f"dispatch__{firing.id}",
        "conf": given,
        "logical_date": None if date in (None, "") else _moment(date),
        "note": None if note is None else str(note)[:MAX_NOTE_CHARS],
        "partition_key": None if partition_key is None else str(partition_key),
    }


def _moment(given: object) -> datetime:
    """Returns the time of a rendered template, in UTC if it has no zone. Raises RunRefused."""
    try:
        # in its canonical form, because keys come as events write them, in any form of ISO 8601
        moment = given if isinstance(given, datetime) else datetime.fromisoformat(canonical_key(str(given)))
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ConditionError, ValueError, OverflowError):
        raise RunRefused(
            f"logical_date is {str(given)[:100]!r}; it must be an ISO 8601 date of the years 1 to 9999 in UTC"
        ) from None
