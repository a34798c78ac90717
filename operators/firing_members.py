"""Finds templates that name a member which no firing has: the dispatcher could create no run with them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import jinja2
from jinja2 import nodes

from ..conditions import Condition
from ..conditions.nodes.templates import is_template

_MEMBERS: Final = (
    "version", "firing_id", "outcome", "key", "canonical_key", "fired_at", "events", "recorded", "missing",
    "left_out",
)  # fmt: skip
_KEY: Final = ("key", "canonical_key")
_BY_LABEL: Final = ("events", "recorded")


def unknown_member(text: str, condition: Condition) -> str | None:
    """A sentence about the first member that a template reads and no firing of the condition has.

    None if there is none, and for a template with a default, an `if`, an `or` or the like: it may expect that
    a member is missing.
    """
    if not is_template(text) or "firing" not in text:
        return None
    labels = condition.labels
    for name, *rest in _read(text):
        if name not in _MEMBERS and not _is_method(name):
            return f"a firing has no {name!r}: it has {', '.join(_MEMBERS)}"
        if name in _KEY and not condition.keyed:
            return f"firing.{name} is None: no matcher of the condition reads a key with by="
        if name not in _BY_LABEL or not rest or _is_method(rest[0]):
            continue
        if rest[0] not in labels:
            return f"firing.{name} has no {rest[0]!r}: the condition has the labels {', '.join(labels)}"
        if len(rest) > 1 and isinstance(rest[1], str) and not hasattr(list, rest[1]):
            below = f".{rest[1]}" if name == "events" else ""
            return f"firing.{name}.{rest[0]} is a list: write firing.{name}.{rest[0]}[0]{below}"
    return None


def _is_method(name: object) -> bool:
    """Whether a dict has a method of this name."""
    return isinstance(name, str) and hasattr(dict, name)


@lru_cache(1000)
def _read(text: str) -> Sequence[tuple[object, ...]]:
    """The members of `firing` that a template reads by fixed names, or by numbers."""
    try:
        tree = jinja2.Environment().parse(text)  # noqa: S701  # it renders nothing
    except Exception:  # noqa: BLE001  # `ArgumentChecks.templates` says what is wrong; extensions are unknown
        return ()
    if any(
        tree.find_all((nodes.If, nodes.CondExpr, nodes.Test, nodes.And, nodes.Or, nodes.Assign, nodes.For))
    ):
        return ()
    if any(each.name in ("default", "d") for each in tree.find_all(nodes.Filter)):
        return ()
    found = (_path(each) for each in tree.find_all((nodes.Getattr, nodes.Getitem)))
    return [each for each in found if each]


def _path(node: nodes.Node) -> tuple[object, ...]:
    names: list[object] = []
    while not isinstance(node, nodes.Name):
        if isinstance(node, nodes.Getattr):
            names.append(node.attr)
        elif isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
            names.append(node.arg.value)
        else:
            return ()
        node = node.node
    return tuple(reversed(names)) if node.name == "firing" else ()
