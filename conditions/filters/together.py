"""Whether the filters of one matcher exclude each other, if one of them is an Sql.

They are joined to one CESQL expression, and `SqlSearch` looks for an outcome of its parts that makes it true.
A filter that CESQL cannot express is left out, so in doubt the answer is that an event may pass all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ...events.attributes import REQUIRED
from .dialects import All, Any, Comparison, Exact, Not, Prefix, Sql, Suffix
from .filter import Filter

if TYPE_CHECKING:
    from .cesql.nodes import Node


def why_none_passes(exact: Mapping[str, str], filters: Sequence[Filter]) -> str | None:
    """Why no event with these attributes passes all of the filters, at least one of which is an Sql.

    None if one may, or if the filters hold no Sql.
    """
    terms = list(_flat(filters))
    if not any(isinstance(term, Sql) for term in terms) or len(terms) + len(exact) < 2:
        return None
    from .cesql.possible import SqlSearch

    if exact:
        terms.insert(0, Exact(exact))
    search = SqlSearch()
    if search.possible(_joined("AND", [node for term in terms if (node := _node(term)) is not None])):
        return None
    return search.reason or "they exclude each other"


def _flat(filters: Iterable[Filter]) -> Iterable[Filter]:
    for each in filters:
        if isinstance(each, All):
            yield from _flat(each.filters)
        else:
            yield each


def _node(term: Filter) -> Node | None:
    """An expression that is true for each event that passes the filter; None if it has none.

    If the filter is an Sql, the expression may fail on an event; else it is `_plain`, which never does.
    """
    if isinstance(term, Sql):
        from .cesql.parser import parse

        return parse(term.expression)
    return _plain(term)


def _plain(term: Filter) -> Node | None:
    """The expression that is true where the filter is, and false elsewhere; None if it has none.

    An Sql has none, also inside other filters: one that fails counts as false, so that Not of it is true.
    """
    from .cesql.operators import inverse

    if isinstance(term, Comparison):
        compared = [_compared(type(term), *pair) for pair in term.pairs]
        return None if None in compared else _joined("AND", [each for each in compared if each is not None])
    if isinstance(term, Not):
        inner = _plain(term.filter)
        return None if inner is None else inverse(inner)
    if not isinstance(term, (All, Any)):
        return None
    parts = [_plain(each) for each in term.filters]
    sign = "AND" if isinstance(term, All) else "OR"
    return None if None in parts else _joined(sign, [each for each in parts if each is not None])


def _compared(kind: type[Comparison], name: str, value: str) -> Node | None:
    from .cesql.nodes import Node, attribute, constant
    from .cesql.operators import comparison, like

    def exists(attributes: Mapping[str, object]) -> bool:
        return name in attributes

    there = Node(exists, bool, attribute=name, form="EXISTS", can_be_false=name not in REQUIRED)
    if kind is Exact:
        return _joined("AND", [there, comparison(attribute(name), "=", constant(value))])
    text = value.replace("%", "\\%").replace("_", "\\_")
    if kind is Prefix and not value.endswith("\\"):  # which would make the % after it literal
        return _joined("AND", [there, like(attribute(name), f"{text}%")])
    return _joined("AND", [there, like(attribute(name), f"%{text}")]) if kind is Suffix else None


def _joined(sign: str, parts: Sequence[Node]) -> Node:
    from .cesql.operators import logic

    first, *rest = parts
    return logic(first, [(sign, part) for part in rest]) if rest else first
