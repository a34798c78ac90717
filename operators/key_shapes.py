"""The shapes of a wait's key, such as a day or a time: whether an event's key can be equal (case K39).

Templates are rendered for sample runs of different dates. Only those that read nothing but the dates of the
run are known; all others can give any key. docs/use/conditions.md has the case.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple, NoReturn

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
# Moments around midnight in UTC, in winter and summer, where days, weeks and months begin: in each zone with
# another offset, one of them belongs to another day, week and month.
EDGES: Final[tuple[datetime, ...]] = tuple(
    datetime.fromisoformat(f"{each}+00:00")
    for each in (
        "2026-05-31T23:50:00",
        "2026-06-01T00:10:00",
        "2027-01-31T23:50:00",
        "2027-02-01T00:10:00",
    )
)
# No `if` and no comparison: the sample runs may not reach each of its outcomes.
_ALLOWED: Final = (
    nodes.Output, nodes.TemplateData, nodes.Const, nodes.Name, nodes.Getattr, nodes.Getitem, nodes.Slice,
    nodes.Call, nodes.Keyword, nodes.Filter, nodes.Add, nodes.Sub, nodes.Mod, nodes.Concat, nodes.Neg,
)  # fmt: skip


class _Rendered(NamedTuple):
    """What a template gives. Empty if it reads more than the dates of the run.

    names: those that it reads, also of filters. texts: one for each sample run. at_edges: one for each of
    EDGES.
    """

    names: frozenset[str] = frozenset()
    texts: tuple[str, ...] = ()
    at_edges: tuple[str, ...] = ()


class _StandIn:
    """Stands for an object in a template's context.

    A template that reads other members than these is unknown.
    """

    def __init__(self, **members: Any) -> None:
        self.__dict__.update(members)

    def __getattr__(self, name: str) -> NoReturn:
        raise LookupError(name)  # not AttributeError, which Jinja takes for an undefined value


_MACROS: Final = _StandIn(
    ds_add=macros.ds_add, ds_format=macros.ds_format, timedelta=macros.timedelta, datetime=macros.datetime
)


def shapes_of_key(key: object, dag: Any) -> tuple[Shapes, ...]:
    """Returns the possible shapes of each value of a key. Raises ConditionError if a value fails in each run.

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
    found = {canonical_key(each) for each in _sample_texts(text, dag) if each not in ("", "None")}
    return frozenset(map(shape_of, found)) or _UNKNOWN


def _zone_of(dag: Any) -> str | None:
    return None if dag is None else zone_of(dag)


def _check_zoned(text: str, given: Zoned, dag: Any) -> None:
    """Raises ConditionError if no run could compute the day, hour, week or month."""
    zone = zone_of(dag) if dag is not None else "UTC"  # what fails in UTC fails in each zone
    if given.zone is None and zone is None:
        key_of_text(text)  # raises, since neither the key nor the DAG names a zone
    texts = _sample_texts(given.of, dag) if is_template(given.of) else (given.of,)
    errors = []
    for each in texts:
        try:
            key_of_text(given._replace(of=each).text, zone)
        except ConditionError as e:
            errors.append(e)
    if texts and len(errors) == len(texts):
        raise ConditionError(f"it fails{' in each run' if is_template(text) else ''}: {errors[0]}")


def rendered_at_edges(text: str, dag: Any) -> tuple[str, ...]:
    """The template rendered for a run of each of EDGES; empty if it reads more than the run's dates."""
    return _rendered_in(text, dag).at_edges


def _sample_texts(text: str, dag: Any) -> tuple[str, ...]:
    """The template rendered for runs of different dates; empty if it reads more than these dates."""
    return _rendered_in(text, dag).texts


def _rendered_in(text: str, dag: Any) -> _Rendered:
    if getattr(dag, "jinja_environment_kwargs", None):
        return _Rendered()
    found = _render_samples(text)
    own = (getattr(dag, "user_defined_filters", None), getattr(dag, "user_defined_macros", None))
    return _Rendered() if any(found.names & each.keys() for each in own if each) else found


@lru_cache(1000)
def _render_samples(text: str) -> _Rendered:
    environment = _environment()
    try:
        tree = environment.parse(text)
        read = meta.find_undeclared_variables(tree)
        if not read <= _runs()[0].keys() or not all(
            isinstance(each, _ALLOWED) for each in tree.find_all(nodes.Node)
        ):
            return _Rendered()
        names = frozenset(read.union(each.name for each in tree.find_all(nodes.Filter)))
        template = environment.from_string(text)
        dated = tuple(template.render(run) for run in _runs()[:-1])
        at_edges = tuple(template.render(run) for run in _runs_at_edges())
    except Exception:  # noqa: BLE001  # a template may raise anything; what it gives is unknown then
        return _Rendered()
    try:
        return _Rendered(names, (*dated, template.render(_runs()[-1])), at_edges)
    except Exception:  # noqa: BLE001  # fails only without dates: the other texts count
        return _Rendered(names, dated, at_edges)


@cache
def _environment() -> jinja2.Environment:
    return DAG("of_keys", schedule=None).get_template_env(force_sandboxed=True)


@cache
def _runs() -> tuple[dict[str, Any], ...]:
    """The context of a template in runs of different dates; the last one has none."""
    return (*(_run(_moment(each)) for each in _SAMPLES), _run_without_date())


@cache
def _runs_at_edges() -> tuple[dict[str, Any], ...]:
    return tuple(_run(timezone.coerce_datetime(each)) for each in EDGES)


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
