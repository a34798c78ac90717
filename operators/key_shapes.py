"""The shapes of a wait's key: its templates are rendered with runs of different dates (K39).

Only templates that read nothing but the dates of the run are known; all others can give any key.
"""

from __future__ import annotations

from datetime import timedelta
from functools import cache, lru_cache
from typing import Any, Final, NoReturn

import jinja2
from airflow.sdk import DAG, macros, timezone
from jinja2 import meta, nodes

from ..conditions import ConditionError, canonical_key
from ..conditions.nodes.shapes import ANY, Shapes, known, of_zoned, shape_of
from ..conditions.nodes.templates import is_template
from ..conditions.nodes.zoned import Zoned, key_of_text, zoned
from ..triggers.argument_checks import is_rendered_later
from .time_zone import zone_of

_UNKNOWN: Final[Shapes] = frozenset({ANY})
_SAMPLES: Final = (
    "2026-11-20T00:00:00",
    "2026-01-02T13:45:10.123",
    "2024-02-29T23:00:00",
    "2025-12-31T12:30:00",
    "2012-12-12T06:00:01",
)
# No `if` and no comparison: the sample runs may not reach each of its outcomes.
_ALLOWED: Final = (
    nodes.Output, nodes.TemplateData, nodes.Const, nodes.Name, nodes.Getattr, nodes.Getitem, nodes.Slice,
    nodes.Call, nodes.Keyword, nodes.Filter, nodes.Add, nodes.Sub, nodes.Concat, nodes.Neg,
)  # fmt: skip


class _StandIn:
    """An object of a template's context with these members. A template that reads another one is unknown."""

    def __init__(self, **members: Any) -> None:
        self.__dict__.update(members)

    def __getattr__(self, name: str) -> NoReturn:
        raise LookupError(name)  # not AttributeError, which Jinja takes for an undefined value


_MACROS: Final = _StandIn(
    ds_add=macros.ds_add, ds_format=macros.ds_format, timedelta=macros.timedelta, datetime=macros.datetime
)


def shapes_of_key(key: object, dag: Any) -> tuple[Shapes, ...]:
    """The shapes of each value of a key. Raises ConditionError if it fails in each run.

    dag: the DAG of the wait; None if it is not known yet.
    """
    parts = key if isinstance(key, (list, tuple)) else (key,)
    return tuple(_shapes_of(part, dag) for part in parts)


def _shapes_of(part: Any, dag: Any) -> Shapes:
    if not isinstance(part, str):
        return _UNKNOWN if is_rendered_later(part) else frozenset({known(canonical_key(part))})
    text = str.__str__(part)
    of_zone = zoned(text)
    if of_zone is not None:
        _check_zoned(text, of_zone, dag)
        given = of_zone if of_zone.zone is not None else of_zone._replace(zone=_zone_of(dag))
        return frozenset({of_zoned(given)})
    if not is_template(text):
        return frozenset({known(canonical_key(text))})
    found = {canonical_key(each) for each in _rendered(text, dag) if each not in ("", "None")}
    return frozenset(map(shape_of, found)) or _UNKNOWN


def _zone_of(dag: Any) -> str | None:
    return None if dag is None else zone_of(dag)


def _check_zoned(text: str, given: Zoned, dag: Any) -> None:
    """Raises ConditionError if no run could compute the day, hour, week or month."""
    zone = zone_of(dag) if dag is not None else "UTC"  # what fails in UTC fails in each zone
    if given.zone is None and zone is None:
        key_of_text(text)  # raises: it names no zone
    texts = _rendered(given.of, dag) if is_template(given.of) else (given.of,)
    errors = []
    for each in texts:
        try:
            key_of_text(given._replace(of=each).text, zone)
        except ConditionError as e:
            errors.append(e)
    if texts and len(errors) == len(texts):
        raise ConditionError(f"it fails{' in each run' if is_template(text) else ''}: {errors[0]}")


def _rendered(text: str, dag: Any) -> tuple[str, ...]:
    """The template rendered for runs of different dates; empty if more than their dates decides it."""
    if getattr(dag, "jinja_environment_kwargs", None):
        return ()
    used, texts = _of_samples(text)
    own = (getattr(dag, "user_defined_filters", None), getattr(dag, "user_defined_macros", None))
    return () if any(used & each.keys() for each in own if each) else texts


@lru_cache(1000)
def _of_samples(text: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """The names that a template uses, also of filters, and its text in each sample run. Empty if unknown."""
    environment = _environment()
    try:
        tree = environment.parse(text)
        read = meta.find_undeclared_variables(tree)
        if not read <= _runs()[0].keys() or not all(
            isinstance(each, _ALLOWED) for each in tree.find_all(nodes.Node)
        ):
            return frozenset(), ()
        names = frozenset(read.union(each.name for each in tree.find_all(nodes.Filter)))
        template = environment.from_string(text)
        dated = tuple(template.render(run) for run in _runs()[:-1])
    except Exception:  # noqa: BLE001  # a template may raise anything; what it gives is unknown then
        return frozenset(), ()
    try:
        return names, (*dated, template.render(_runs()[-1]))
    except Exception:  # noqa: BLE001  # fails only without dates: the other texts count
        return names, dated


@cache
def _environment() -> jinja2.Environment:
    return DAG("of_keys", schedule=None).get_template_env(force_sandboxed=True)


@cache
def _runs() -> tuple[dict[str, Any], ...]:
    """The context of a template in runs of different dates; the last one has none."""
    return (*(_run(_moment(each)) for each in _SAMPLES), _run_without_date())


def _moment(text: str) -> Any:
    return timezone.coerce_datetime(timezone.parse(text))


def _run(moment: Any) -> dict[str, Any]:
    ds, ts = moment.strftime("%Y-%m-%d"), moment.isoformat()
    end = moment + timedelta(days=1)
    run = _StandIn(
        logical_date=moment, run_after=end, start_date=end, data_interval_start=moment, data_interval_end=end
    )
    return {
        "dag_run": run,
        "macros": _MACROS,
        "logical_date": moment,
        "data_interval_start": moment,
        "data_interval_end": end,
        "ds": ds,
        "ds_nodash": ds.replace("-", ""),
        "ts": ts,
        "ts_nodash": moment.strftime("%Y%m%dT%H%M%S"),
        "ts_nodash_with_tz": ts.replace("-", "").replace(":", ""),
    }


def _run_without_date() -> dict[str, Any]:
    moment = _moment(_SAMPLES[0])
    run = _StandIn(
        logical_date=None,
        run_after=moment,
        start_date=moment,
        data_interval_start=None,
        data_interval_end=None,
    )
    return {"dag_run": run, "macros": _MACROS}
