"""What the run of a firing is given: the arguments of `dispatch_dag`, rendered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ..engine.records import Firing
from ..triggers.firing_json import firing_form, json_text
from .target import RunRefused

if TYPE_CHECKING:
    from airflow.sdk import Context

MOST_CONF_BYTES: Final = 64 * 1024
MOST_NOTE: Final = 1000  # characters, by Airflow's table


def run_of(
    firing: Firing,
    context: Context,
    render: Callable[[Any, Any], Any],
    *,
    conf: Mapping[str, Any] | None,
    logical_date: str | None,
    note: str | None,
    partition_key: str | None,
) -> dict[str, Any]:
    """The arguments of the firing's run; RunRefused where there are none.

    render: of a template and the names that it sees.
    """
    form = firing_form(firing)
    seen: Any = {**context, "firing": form}

    def rendered(argument: str, template: Any, render: Callable[[Any, Any], Any] = render) -> Any:
        try:
            value = render(template, seen)
            json_text(str(value) if isinstance(value, datetime) else value)
        except Exception as e:  # a template may raise anything
            labels = ", ".join(firing.events) or "none"
            raise RunRefused(
                f"the template of {argument} failed: {type(e).__name__}: {e}. The firing has events of these"
                f" labels: {labels}. Mend the template; until then the firing is held"
            ) from e
        return value

    if conf is None:
        given = rendered("conf", form, lambda whole, _: whole)  # data of events are no templates
    else:
        given = {name: rendered(f"conf[{name!r}]", each) for name, each in conf.items()}
    date = rendered("logical_date", logical_date)
    note, partition_key = rendered("note", note), rendered("partition_key", partition_key)
    size = len(json_text(given))
    if size > MOST_CONF_BYTES:
        raise RunRefused(f"its conf has {size} bytes, and {MOST_CONF_BYTES} are allowed")
    return {
        "run_id": f"dispatch__{firing.id}",
        "conf": given,
        "logical_date": None if date in (None, "") else _moment(date),
        "note": None if note is None else str(note)[:MOST_NOTE],
        "partition_key": None if partition_key is None else str(partition_key),
    }


def _moment(given: object) -> datetime:
    """A time from what a template gave; UTC where it has no zone."""
    try:
        moment = given if isinstance(given, datetime) else datetime.fromisoformat(str(given))
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise RunRefused(
            f"logical_date is {str(given)[:100]!r}, which is no ISO 8601 date of the years 1 to 9999 in UTC"
        ) from None
