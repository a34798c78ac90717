"""Who feeds what: senders and event types, the subscriptions that take them, the DAGs that run then. Pure.

Edges come from conditions (which types, DAGs and jobs a matcher names), from the events of recent firings
(who sends a type), and from what a subscription starts. Waits of one task are one node, whatever their runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol
from urllib.parse import unquote

from ...conditions import Condition, Matcher
from ...conditions.explanation.wording import clean, given
from ...conditions.filters.dialects import Any, Exact

MOST_NODES: Final = 500
_MOST_TITLES: Final = 3
_MOST_CHARS: Final = 200
_OF_RUNS: Final = "interlock.airflow."  # the subject of these types is a DAG, or a DAG and a task
_OF_JOBS: Final = ("interlock.spark.", "openlineage.run.")  # the subject of these types is a job


class Node(NamedTuple):
    """A node of the graph.

    kind: sender, job, event (a type), dag, wait, dispatcher, subscription, sink or asset. dag_id: the DAG to
    which it belongs. waits: how many registrations a wait has. late: what is late, in a sentence; "" if
    nothing is.
    """

    id: str
    kind: str
    title: str
    dag_id: str | None = None
    waits: int = 0
    late: str = ""


class Edge(NamedTuple):
    """Events, or runs, that go from one node to another. title: the labels, or what happens."""

    start: str
    end: str
    title: str


class Graph(NamedTuple):
    """Nodes and edges. left_out: how many nodes there are beyond MOST_NODES, at least."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    left_out: int

    def to_json(self) -> dict[str, object]:
        nodes = [
            {**given({"id": each.id, "kind": each.kind, "title": each.title, "dag_id": each.dag_id})}
            | {"waits": each.waits, "late": each.late or False}
            for each in self.nodes
        ]
        edges = [{"from": each.start, "to": each.end, "title": each.title} for each in self.edges]
        return {"nodes": nodes, "edges": edges, "left_out": self.left_out}


@dataclass(frozen=True)
class Feeding:
    """A subscription, as the graph needs it.

    dag_id, task_id: to which it belongs; None if to none. sink: where it delivers; "" if it does not. target:
    the DAG of which a dispatcher creates runs; None if it is not known.
    """

    name: str
    one_shot: bool
    condition: Condition
    dag_id: str | None = None
    task_id: str | None = None
    sink: str = ""
    target: str | None = None
    late: str = ""


class SentEvent(Protocol):
    """An event of a firing."""

    @property
    def source(self) -> str: ...
    @property
    def type(self) -> str: ...


def graph_of(
    subscriptions: Iterable[Feeding], sent: Iterable[SentEvent], deployment: str, most: int = MOST_NODES
) -> Graph:
    """The graph of these subscriptions, with the senders of these events. At most `most` nodes.

    deployment: of this Airflow, whose tasks send events of their own.
    """
    drawing = _Drawing(deployment, most)
    for each in subscriptions:
        drawing.subscription(each)
    for event in sent:
        drawing.sender(event.source, event.type)
    return drawing.graph()


@dataclass
class _Drawing:
    deployment: str
    most: int
    nodes: dict[str, Node] = field(default_factory=dict)
    edges: dict[tuple[str, str], dict[str, None]] = field(default_factory=dict)
    late: dict[str, tuple[int, str]] = field(default_factory=dict)  # how many, and the first sentence
    waits: dict[str, int] = field(default_factory=dict)
    seen: set[tuple[str, Condition]] = field(default_factory=set)
    left_out: set[str] = field(default_factory=set)

    def subscription(self, of: Feeding) -> None:
        node = self._node_of(of)
        if node is None:
            return
        if of.late:
            number, first = self.late.get(node, (0, of.late))
            self.late[node] = (number + 1, first)
        self.waits[node] = self.waits.get(node, 0) + of.one_shot
        if (node, of.condition) in self.seen:  # waits of many runs share a condition
            return
        self.seen.add((node, of.condition))
        for label, matcher in zip(of.condition.labels, of.condition.matchers, strict=True):
            for origin in self._origins(matcher):
                self._edge(origin, node, label)
        if of.one_shot:
            self._edge(node, self._dag(of.dag_id), "the task continues")
        elif of.sink:
            self._edge(node, self._add(f"sink:{of.sink}", "sink", of.sink), "each firing")
        elif of.target is not None:
            self._edge(node, self._dag(of.target), "a run for each firing")
        elif of.name.split("/")[1:2] == ["asset"]:
            asset = of.name.split("/", 2)[-1]
            self._edge(node, self._add(f"asset:{asset}", "asset", asset), "an asset event for each firing")

    def sender(self, source: str, event_type: str) -> None:
        """Note that a source has sent a type. Nothing if no subscription names the type."""
        node = f"event:{event_type}"
        if node in self.nodes:
            self._edge(self._sender(source), node, "")

    def graph(self) -> Graph:
        nodes = []
        for each in self.nodes.values():
            number, first = self.late.get(each.id, (0, ""))
            late = first if number < 2 else f"{first} And {number - 1} more."
            nodes.append(each._replace(late=late, waits=self.waits.get(each.id, 0)))
        edges = tuple(Edge(*ends, _titles(titles)) for ends, titles in self.edges.items())
        return Graph(tuple(nodes), edges, len(self.left_out))

    def _node_of(self, of: Feeding) -> str | None:
        if of.one_shot and of.dag_id is not None:
            title = f"{of.dag_id} / {of.task_id}"
            return self._add(f"wait:{of.dag_id}/{of.task_id}", "wait", title, of.dag_id)
        if of.one_shot:
            return self._add(f"wait:{of.name}", "wait", of.name)
        kind = "dispatcher" if of.name.split("/")[1:2] == ["dispatch"] else "subscription"
        return self._add(f"{kind}:{of.name}", kind, of.name, of.dag_id)

    def _origins(self, matcher: Matcher) -> Iterator[str | None]:
        """The nodes from which the events of a matcher come."""
        exact = dict(matcher.exact)
        types = _types(matcher)
        subject, source = exact.get("subject"), exact.get("source")
        for event_type in types:
            if subject is not None and event_type.startswith(_OF_RUNS):
                yield self._dag(subject.partition("/")[0])
            elif subject is not None and event_type.startswith(_OF_JOBS):
                yield self._add(f"job:{subject}", "job", subject)
            else:
                node = self._add(f"event:{event_type}", "event", event_type)
                if source is not None:
                    self._edge(self._sender(source), node, "")
                yield node
        if not types:
            yield self._sender(source) if source is not None else self._add("event:", "event", "any type")

    def _sender(self, source: str) -> str | None:
        """The node of a source: the DAG or the Spark application that it names, else the source itself."""
        parts = [unquote(part) for part in source.split("/")]
        if len(parts) >= 3 and parts[:2] == ["", self.deployment]:
            return self._dag(parts[2])
        if len(parts) == 3 and parts[:2] == ["", "spark"]:
            return self._add(f"job:{parts[2]}", "job", parts[2])
        return self._add(f"sender:{source}", "sender", source)

    def _dag(self, dag_id: str | None) -> str | None:
        return None if dag_id is None else self._add(f"dag:{dag_id}", "dag", dag_id, dag_id)

    def _add(self, node: str, kind: str, title: str, dag_id: str | None = None) -> str | None:
        """The node's id; None if there is no room for it."""
        node = clean(node, _MOST_CHARS)
        if node not in self.nodes:
            if len(self.nodes) >= self.most:
                self.left_out.add(node)
                return None
            self.nodes[node] = Node(node, kind, clean(title, _MOST_CHARS), dag_id)
        return node

    def _edge(self, start: str | None, end: str | None, title: str) -> None:
        if start is not None and end is not None and start != end:
            self.edges.setdefault((start, end), {}).setdefault(clean(title, _MOST_CHARS))


def _types(matcher: Matcher) -> list[str]:
    """The types that a matcher names: one, or one of several."""
    exact = dict(matcher.exact).get("type")
    if exact is not None:
        return [exact]
    found: Mapping[str, None] = {}
    for each in matcher.filters:
        if isinstance(each, Any) and all(isinstance(part, Exact) for part in each.filters):
            pairs = [pair for part in each.filters if isinstance(part, Exact) for pair in part.pairs]
            if {name for name, _ in pairs} == {"type"}:
                found = dict.fromkeys(value for _, value in pairs)
    return list(found)


def _titles(titles: Iterable[str]) -> str:
    named = [title for title in titles if title]
    more = f" and {len(named) - _MOST_TITLES} more" if len(named) > _MOST_TITLES else ""
    return ", ".join(named[:_MOST_TITLES]) + more
