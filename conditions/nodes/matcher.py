"""The matcher: a leaf of a condition, which accepts events and reads their key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from ...events.attributes import CORE, is_name, kind, shown
from ...events.event import Event
from ...events.plain import ATTRIBUTES as PLAIN_ATTRIBUTES
from ...events.plain import TYPE as PLAIN_TYPE
from ...events.plain_text import takes_plain_text
from ..errors import ConditionError
from ..filters.cel.where import Where
from ..filters.dialects import All, Exact, Prefix, Suffix, attributes_of, filter_from_json
from ..filters.filter import (
    ACCEPTED,
    Filter,
    FilterDecision,
    arguments,
    check_size,
    checked_pairs,
    checked_text,
    is_keyword_name,
    quoted,
)
from .by import checked_paths, paths_text
from .condition import Condition
from .kinds import default_paths
from .param import Param, ParamExact, ParamWhere, where_of
from .paths import DATA, key_at, parse_path
from .templates import check_no_template, check_templates

if TYPE_CHECKING:
    from .condition import Keep

MAX_LABEL_CHARS: Final = 128
KEEP: Final = ("latest", "first", "all")
MAX_LIMIT: Final = 1000
DEFAULT_LIMIT: Final = 100
# Arguments of event() that do not name an attribute; an attribute of such a name is filtered with Exact(...).
# `topic` and `data` are reserved.
_RESERVED = frozenset({"topic", "data"})
_KEYWORDS = frozenset({"by", "label", "where", "filters", "keep", "limit"})
# A task returns its events under their labels, and XCom reads dicts with such names as objects.
_NO_LABELS = ("__classname__", "__id__", "__type", "__var")
# event() treats a name close to one of these as a typing error. Names of two letters are left out, because
# too many names are close to them; specversion is left out, so that an extension may be called "version".
_KNOWN: Final = tuple(sorted(name for name in _KEYWORDS | CORE - {"specversion"} if len(name) > 2))
_CLOSE: Final = 0.75
_GLOBBED: Final = ("type", "source", "subject")
_TYPE_PARTS_IN_LABEL = 2


@dataclass(frozen=True, init=False, repr=False)
class Matcher(Condition):
    """A leaf: accepts the events that pass `exact`, all of `filters`, and `where`; made by `event()`.

    exact: ((attribute, value), ...), sorted by attribute; values are canonical strings.
    by: path of the correlation key: an attribute's name, or "data." and the members of JSON objects; a tuple
        of 2 to 8 paths reads a composite key.
    label: the name of its events in firings; None for a default (`Condition.labels`).
    filters: the filters that are not Exact, in order of evaluation, each once.
    where: a predicate in CEL, evaluated last.
    keeps: which of repeated matches takes part, "latest", "first" or "all"; None means "latest".
    limit: how many are held if it keeps "all".
    """

    exact: tuple[tuple[str, str], ...]
    by: str | tuple[str, ...] | None
    label: str | None
    filters: tuple[Filter, ...]
    where: Where | None
    keeps: Keep | None
    limit: int | None

    def __init__(
        self,
        exact: Iterable[tuple[str, str]],
        by: str | Sequence[str] | None = None,
        label: str | None = None,
        *,
        filters: Iterable[Filter] = (),
        where: Where | None = None,
        keeps: Keep | None = None,
        limit: int | None = None,
    ) -> None:
        pairs, rest = _merged(checked_pairs("event", exact), filters)
        if not pairs and not rest and where is None:
            raise ConditionError(
                'event() without a filter would match every event: name at least a type, event(type="...")'
            )
        check_size(rest, len(pairs))
        if where is not None and not isinstance(where, Where):
            raise ConditionError(f"event(where=...) is {kind(where)}: give a predicate in CEL")
        if label is not None:
            checked_text("event", "label", label, MAX_LABEL_CHARS)
        object.__setattr__(self, "exact", pairs)
        object.__setattr__(self, "by", None if by is None else checked_paths("event", "by", by))
        object.__setattr__(self, "label", label)
        object.__setattr__(self, "filters", rest)
        object.__setattr__(self, "where", where)
        object.__setattr__(self, "keeps", keeps)
        object.__setattr__(self, "limit", _checked_limit(keeps, limit))

    def changed(self, **arguments: Any) -> Matcher:
        """The same matcher with other arguments of the constructor, such as label="x"."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        return Matcher(**(given | arguments))

    def bound(self, texts: Mapping[str, str], values: Mapping[str, object], label: str) -> Matcher:
        """The matcher with values for its parameters, and the label that it has in the whole condition.

        texts: the values as attributes have them.
        """
        of_params = [each for each in self.filters if isinstance(each, ParamExact)]
        exact = [*self.exact, *((each.attribute, texts[each.param]) for each in of_params)]
        made = self.changed(
            exact=exact,
            label=label,
            filters=[each for each in self.filters if not isinstance(each, ParamExact)],
            where=self.where.bound(values) if isinstance(self.where, ParamWhere) else self.where,
        )
        if of_params and dict(exact).get("type") == PLAIN_TYPE:
            _check_plain(made)
        return made

    @property
    def counted_by(self) -> str | tuple[str, ...] | None:
        """The default of count(distinct=); None: every event counts."""
        return default_paths(self)

    @cached_property
    def params(self) -> tuple[str, ...]:
        names = [each.param for each in self.filters if isinstance(each, ParamExact)]
        names += self.where.params if isinstance(self.where, ParamWhere) else ()
        return tuple(dict.fromkeys(names))

    @property
    def operands(self) -> tuple[Condition, ...]:
        return ()

    @property  # not cached: to unpickle the cached dict, the matcher would be hashed before it has its fields
    def distinct_of(self) -> dict[Matcher, str | tuple[str, ...] | None]:
        return {self: None}

    @property
    def default_label(self) -> str:
        """The filtered subject, else the last two dotted parts of the type, else the first value.

        Exact filters come first, then prefix and suffix filters; without any, it is "event".
        """
        wanted = dict(self.exact)
        for each in self.filters:
            if not wanted and isinstance(each, (Prefix, Suffix)):
                wanted = dict(each.pairs)
        if "subject" in wanted:
            return wanted["subject"][:MAX_LABEL_CHARS]
        if "type" in wanted:
            return ".".join(wanted["type"].split(".")[-_TYPE_PARTS_IN_LABEL:])[-MAX_LABEL_CHARS:]
        return next(iter(wanted.values()), next(iter(self.params), "event"))[:MAX_LABEL_CHARS]

    def accepts(self, event: Event) -> bool:
        """True if `event` passes all filters, whatever its key. An error in evaluation means False."""
        attributes = event.attributes
        return (
            all(attributes.get(name) == value for name, value in self.exact)
            and all(each.accepts(event) for each in self.filters)
            and (self.where is None or self.where.accepts(event))
        )

    def verdict(self, event: Event) -> FilterDecision:
        """As `accepts`, with the term that refused the event and any error in evaluation."""
        for name, value in self.exact:
            if event.attributes.get(name) != value:
                return FilterDecision(False, term=f"Exact({arguments({name: value})})", attribute=name)
        error: str | None = None
        terms = self.filters if self.where is None else (*self.filters, self.where)
        for each in terms:
            verdict = each.verdict(event)
            error = error or verdict.error
            if not verdict.accepted:
                return verdict._replace(error=error)
        return ACCEPTED if error is None else FilterDecision(True, error)

    def key_of(self, event: Event) -> str | None:
        """The canonical text of the event's correlation key; None if it has none, so that it does not match.

        It has none if there is no such attribute or member, the data is not JSON, or the value is null, an
        object, a list, empty or otherwise not a key (`canonical_key`). Only for matchers with `by`.
        """
        return None if self.by is None else key_at(self.by, event)

    def __str__(self) -> str:
        wanted = dict(self.exact)
        first: tuple[str, ...] = ("type", "source", "subject")
        ordered = [name for name in first if name in wanted]
        ordered += [name for name in wanted if name not in ordered]
        # an attribute that event() does not accept as a keyword goes into a filter, which is merged back
        apart = {name: wanted[name] for name in ordered if not _is_keyword_of_event(name, wanted[name])}
        parts = [f"{name}={quoted(wanted[name])}" for name in ordered if name not in apart]
        filters = [f"Exact({arguments(apart)})"] if apart else []
        parts += [each.argument for each in self.filters if isinstance(each, ParamExact)]
        filters += (str(each) for each in self.filters if not isinstance(each, ParamExact))
        parts += [f"filters=[{', '.join(filters)}]"] if filters else []
        parts += [f"where={quoted(self.where.source)}"] if self.where is not None else []
        parts += [f"by={paths_text(self.by)}"] if self.by is not None else []
        parts += [f"label={quoted(self.label)}"] if self.label is not None else []
        parts += [f"keep={quoted(self.keeps)}"] if self.keeps is not None else []
        parts += [f"limit={self.limit}"] if self.limit is not None else []
        return f"event({', '.join(parts)})"


@takes_plain_text
def event(
    type: str | Param | None = None,  # noqa: A002  # CloudEvents' word
    *,
    source: str | Param | None = None,
    subject: str | Param | None = None,
    by: str | Sequence[str] | None = None,
    label: str | None = None,
    where: str | Where | None = None,
    filters: Sequence[Filter | Mapping[str, object]] | None = None,
    keep: Keep | None = None,
    limit: int | None = None,
    **extensions: str | Param,
) -> Matcher:
    """A matcher for the events whose attributes have exactly these values.

    extensions: any other attribute by its name, e.g. tenant="bank". A name close to another argument's, such
        as lable or key, is an error: write filters=[Exact(lable="x")].
    by: the correlation key: "subject", "time", any attribute, or a path into JSON data such as
        "data.order.date"; several paths make a composite key; "data.day + 1d" adds a day to the date or time.
    label: the name of its events in firings.
    where: a predicate in CEL over `data` and `event`, e.g. "data.amount > 100".
    filters: further filters, all of which must pass, such as Prefix(subject="orders/"), or their JSON form.
    keep: which of repeated matches takes part: "latest" (the default) or "first"; or "all": each in a firing
        of its own, and at most the latest `limit` (100) are held.

    Templates such as {{ ds }} are not rendered here, and are errors. For a value that the waiting task gives
    write param("customer") as an attribute's value, and `param.customer` in `where`.
    Raises ConditionError, which names the wrong argument.
    """
    given: dict[str, object] = {"type": type, "source": source, "subject": subject}
    exact = [(name, value) for name, value in given.items() if value is not None]
    for name, value in exact:
        if _is_glob(name, value):
            raise ConditionError(f"event({name}={shown(value)}): {_glob_hint(name, str(value))}")
    for name, value in extensions.items():
        if name in _RESERVED:
            raise ConditionError(
                f"event({name}=...) is reserved and cannot filter an attribute{_reserved_hint(name, value)}"
            )
        meant = _meant(name)
        if meant is not None:
            raise ConditionError(
                f"event({name[:40]}=...): did you mean {meant}=?{_extension_hint(name, value)}"
            )
        exact.append((name, value))
    if isinstance(where, str):
        check_no_template("event", "where", where)  # before CEL, whose error would not say what to write
        where = where_of(where)
    if isinstance(label, str) and "\0" in label:  # labels are in XComs, which databases hold
        raise ConditionError(f"event(label={shown(label)}) holds a NUL, which databases refuse")
    if label in _NO_LABELS:
        raise ConditionError(f"event(label={shown(label)}): Airflow's XCom reserves this name; give another")
    for path in by if isinstance(by, (list, tuple)) else (by,):
        check_no_template("event", "by", path)
    of_params = [ParamExact(name, value.name) for name, value in exact if isinstance(value, Param)]
    made = Matcher(
        [pair for pair in exact if not isinstance(pair[1], Param)],  # type: ignore[misc]  # checked there
        by,
        label,
        filters=[*of_params, *_filters(filters)],
        where=where,
        keeps=keep,
        limit=limit,
    )
    check_templates(made)
    if dict(made.exact).get("type") == PLAIN_TYPE:
        _check_plain(made)
    return made


def _check_plain(made: Matcher) -> None:
    """Raises ConditionError for an attribute that no plain record has."""
    paths = (made.by,) if isinstance(made.by, str) else made.by or ()
    wanted = [(name, f"{name}=...") for name, _ in made.exact]
    for each in made.filters:
        if isinstance(each, ParamExact):
            wanted.append((each.attribute, f"{each.attribute}=..."))
        wanted += [(name, f"filters=[{type(each).__name__}(...)]") for name in attributes_of(each)]
    if made.where is not None:
        wanted += [(name, "where=...") for name in attributes_of(made.where)]
    wanted += [(parse_path(path).base, f"by={quoted(path)}") for path in paths]
    for name, argument in wanted:
        if name not in PLAIN_ATTRIBUTES and not name.startswith(DATA):
            raise ConditionError(
                f"event({argument[:80]}): a plain record has no attribute {name[:40]}. It has"
                f" {', '.join(sorted(PLAIN_ATTRIBUTES))}; its headers are not read. For a member of the data"
                f' write by="data.{name[:40]}", or where="data.{name[:40]} == ..."'
            )


def _filters(given: object) -> list[Filter]:
    if given is None:
        return []
    if not isinstance(given, (list, tuple)):
        raise ConditionError(
            f"event(filters=...) is {kind(given)}: give a list, such as [Prefix(subject=...)]"
        )
    return [
        each if isinstance(each, Filter) else filter_from_json(each, f"filters[{number}]")
        for number, each in enumerate(given)
    ]


def _merged(
    exact: tuple[tuple[str, str], ...], filters: Iterable[Filter]
) -> tuple[tuple[tuple[str, str], ...], tuple[Filter, ...]]:
    """`exact` with the exact filters among `filters`, and the other filters, each once.

    An All is replaced by its filters, so that matchers with the same meaning are equal and the index finds
    all exact values.
    """
    wanted, rest = dict(exact), dict[Filter, None]()
    waiting = list(filters)[::-1]
    while waiting:
        each = waiting.pop()
        if isinstance(each, All):
            waiting += each.filters[::-1]
        elif isinstance(each, Exact):
            for name, value in each.pairs:
                if wanted.setdefault(name, value) != value:
                    raise ConditionError(
                        f"attribute {name} must equal both {shown(wanted[name])} and {shown(value)}: no event"
                        " can match. For one of several values write Any(Exact(...), Exact(...))"
                    )
        elif isinstance(each, Where):
            raise ConditionError(f"event(filters=...) holds a Where: write where={quoted(each.source)}")
        elif isinstance(each, Filter):
            rest[each] = None
        else:
            raise ConditionError(
                f"event(filters=...) holds {kind(each)}: give filters, such as Prefix(subject=...)"
            )
    return tuple(sorted(wanted.items())), tuple(rest)


def _checked_limit(keep: object, limit: object) -> int | None:
    if keep is not None and (not isinstance(keep, str) or keep not in KEEP):
        raise ConditionError(f"event(keep={shown(keep)}): give one of {', '.join(KEEP)}")
    if limit is None:
        return DEFAULT_LIMIT if keep == "all" else None
    if keep != "all":
        raise ConditionError('event(limit=...) needs keep="all"')
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MAX_LIMIT:
        raise ConditionError(f"event(limit={shown(limit)}): give a whole number from 1 to {MAX_LIMIT}")
    return limit


def _is_keyword_of_event(name: str, value: str) -> bool:
    return (
        is_keyword_name(name)
        and name not in _RESERVED
        and name not in _KEYWORDS
        and _meant(name) is None
        and not _is_glob(name, value)
    )


def _reserved_hint(name: str, value: object) -> str:
    if name == "data":
        return ": write where=\"data.status == 'done'\", or filters=[Exact(data=...)] for an extension"
    return (
        f": a plain record has the name of its topic as source, write event(source={shown(value)}); filter"
        " CloudEvents by their own attributes"
    )


def _meant(name: str) -> str | None:
    """The argument of event() that `name` probably means; None if it can be an attribute's name."""
    if name in CORE:
        return None
    plain = name[:40].lower().replace("_", "")
    if plain == "key":
        return "by"
    found = get_close_matches(plain, _KNOWN, n=1, cutoff=_CLOSE)
    return found[0] if found else None


def _extension_hint(name: str, value: object) -> str:
    if not is_name(name):
        return ""
    text = quoted(value) if isinstance(value, str) and len(value) <= 80 else "..."
    return f" For an extension of this name write filters=[Exact({name[:40]}={text})]"


def _is_glob(name: str, value: object) -> bool:
    return name in _GLOBBED and isinstance(value, str) and (value.startswith("*") or value.endswith("*"))


def _glob_hint(name: str, value: str) -> str:
    fixed = value.strip("*")
    if not fixed:
        write = f"leave {name} out to accept any"
    elif not value.endswith("*"):
        write = f"write filters=[Suffix({name}={quoted(fixed)})]"
    elif not value.startswith("*"):
        write = f"write filters=[Prefix({name}={quoted(fixed)})]"
    else:
        within = f"event.{name}.contains({quoted(fixed)})"
        write = f"write where={quoted(within)}"
    return f"* is not a wildcard: {write}; for a literal * write filters=[Exact({name}={quoted(value)})]"
