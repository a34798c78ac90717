"""Sensors of Argo Events: each trigger as a condition, with the DAG that it starts or the service it calls.

A dependency names an EventSource and an event, which are source and subject of Argo's own events. Which
attributes events have here depends on what replaces the EventSource, so the matchers have to be completed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from ..conditions import Condition, ConditionError, Matcher, event, parse
from ..events.attributes import shown
from .argo_filters import exact_and_where
from .destinations import address
from .documents import Resource
from .errors import NotTranslated
from .fields import FieldNote, Members
from .subscription import Subscription, Unread

GROUP: Final = "argoproj.io"
API_VERSION: Final = f"{GROUP}/v1alpha1"
KINDS: Final = (
    "argoWorkflow", "http", "k8s", "awsLambda", "custom", "kafka", "nats", "slack", "openWhisk", "log",
    "azureEventHubs", "pulsar", "azureServiceBus", "email",
)  # fmt: skip

_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_BETWEEN_NAMES: Final = re.compile(r"(\s|&&|\|\||[()])*")
_DEFAULT_TIMEOUT_S: Final = 60.0
_SPEC: Final = {
    "template": "engines run in Airflow's triggerers",
    "replicas": "engines run in Airflow's triggerers, and share the work",
    "revisionHistoryLimit": "engines run in Airflow's triggerers",
    "eventBusName": "a DAG names its bus: bus=, or `[interlock] bus`",
    "errorOnFailedRound": "a failed run does not stop later ones: set max_active_runs=1 and depends_on_past",
    "loggingFields": "log lines have fields of their own",
}
_TRIGGER: Final = {
    "parameters": "write conf= of dispatch_dag, with templates: without it, a run gets the whole firing",
    "policy": "a run succeeds when its tasks do, a delivery with 2xx",
    "retryStrategy": "set retries of the DAG's tasks, or retry= of deliver_dag",
    "rateLimit": "there is no limit per time: see max_runs_in_flight, and max_in_flight of deliver_dag",
    "dlqTrigger": "write a DAG that reacts to failed runs; deliveries have the dead-letter topic",
}
_HTTP: Final = {
    "payload": "the body is the event, or the firing with its events",
    "parameters": "the body is the event, or the firing with its events",
    "dynamicHeaders": "attributes of the event are headers",
    "headers": "the connection has headers",
    "secureHeaders": "the connection has headers",
    "basicAuth": "the connection has login and password",
    "tls": "the connection has certificates",
    "host": "the connection has headers",
}
_MATCHER: Final = (
    "source and subject, as in Argo's own events: write the attributes of the events that replace the"
    " EventSource {}, with their type"
)
_AT_MOST_ONCE: Final = (
    "not true: at most once does not exist here. A firing starts exactly one run, or is delivered at least"
    " once"
)
_SAME_NAME: Final = (
    "another dependency has this name, as - and _ are the same in conditions: rename one of them, there too"
)
_NOTHING_TO_RESET: Final = (
    "left out: a single event meets the condition, so nothing is held that could be reset"
)
_ONE_SIDE: Final = (
    "a firing takes the events of the side of || that was met, and the others stay held for a next one: a"
    " Sensor hands over all events that it holds, and drops them"
)
_TARGET: Final = "write a DAG {} that does what this trigger did"


def sensors(resources: Iterable[Resource]) -> list[Subscription | Unread]:
    """Returns what becomes of each resource: of a Sensor a line for itself, and one for each trigger."""
    found: list[Subscription | Unread] = []
    taken = set[str]()
    for each in resources:
        if each.kind == "Sensor" and each.api_version == API_VERSION:
            found += _sensor(each, taken)
        else:
            is_other = each.kind == "Sensor" and each.api_version.startswith(f"{GROUP}/")
            reason = f"it is not a Sensor of {API_VERSION}"
            found.append(Unread(str(each), reason, is_other_version=is_other))
    return found


def _sensor(resource: Resource, taken: set[str]) -> Iterator[Subscription | Unread]:
    """taken: the names of the triggers that were read before, to which those of this Sensor are added."""
    try:
        spec = Members(resource.value.get("spec"), "spec")
        dependencies = [
            Members(each, f"spec.dependencies[{number}]")
            for number, each in enumerate(spec.items("dependencies"))
        ]
        triggers = spec.items("triggers")
        left_out = tuple(spec.left(_SPEC, "no field of a Sensor that is known here"))
    except NotTranslated as error:
        reason = FieldNote(error.field, error.reason)
        yield Subscription(resource=str(resource), name=resource.name, refused=(reason,))
        return
    yield Unread(str(resource), "its triggers follow", left_out)
    made = _Dependencies(dependencies)
    for number, each in enumerate(triggers):
        found = _Trigger(resource, f"spec.triggers[{number}]", each, made).read()
        if not found.refused and found.name in taken:
            reason = FieldNote(
                f"spec.triggers[{number}].template.name",
                "another trigger of the file becomes the same DAG name",
            )
            found = Subscription(resource=found.resource, name=found.name, refused=(reason,))
        elif not found.refused:
            taken.add(found.name)
        yield found


class _Dependencies:
    """The dependencies of a Sensor as matchers. A trigger that names a refused one is refused too.

    Two of one name are refused: of such a pair a Sensor's conditions use only one.
    """

    def __init__(self, given: Iterable[Members]) -> None:
        self.matchers: dict[str, Matcher] = {}
        self.notes: dict[str, list[FieldNote]] = {}
        self.refused: dict[str, FieldNote] = {}
        for each in given:
            name, notes = f"({each.path})", list[FieldNote]()
            try:
                stated = each.text("name")
                if not stated:
                    raise NotTranslated(each.field("name"), "it is missing")
                name = self.named(stated) or stated
                if name in self.notes:
                    self.matchers.pop(name, None)
                    raise NotTranslated(each.field("name"), f"{shown(stated)}: {_SAME_NAME}")
                self.matchers[name] = _dependency(each, name, notes)
            except NotTranslated as error:
                self.refused[name] = FieldNote(error.field, error.reason)
            self.notes[name] = notes

    def names(self) -> list[str]:
        return [*dict.fromkeys((*self.matchers, *self.refused))]

    def named(self, name: str) -> str | None:
        """The dependency that a condition means by this name; None if there is none.

        In a condition of Argo, - and _ are the same.
        """
        plain = name.replace("-", "_")
        found = [each for each in self.names() if each == name or each.replace("-", "_") == plain]
        return found[0] if found else None


def _dependency(given: Members, name: str, notes: list[FieldNote]) -> Matcher:
    if _NAME.fullmatch(name) is None:
        raise NotTranslated(given.field("name"), f"{shown(name)} is not the name of a dependency")
    attributes = {"source": given.text("eventSourceName"), "subject": given.text("eventName")}
    for argument, field in (("source", "eventSourceName"), ("subject", "eventName")):
        if not attributes[argument]:
            raise NotTranslated(given.field(field), "it is missing")
    notes.append(FieldNote(given.field("eventSourceName"), _MATCHER.format(attributes["source"])))
    if given.members("transform"):
        raise NotTranslated(
            given.field("transform"), "events are not changed here: read the members as they come"
        )
    exact, where = exact_and_where(given.members("filters"), given.text("filtersLogicalOperator"), notes)
    for each in given.left({}, "no field of a dependency"):
        raise NotTranslated(each.field, each.text)
    for argument, value in exact.items():
        if attributes.setdefault(argument, value) != value:
            own = shown(attributes[argument])
            raise NotTranslated(
                f"{given.field('filters')}.context.{argument}",
                f"the dependency names events with {own} there: write the matcher yourself",
            )
    try:
        return event(**attributes, where=where, label=name)  # type: ignore[arg-type]
    except ConditionError as error:
        raise NotTranslated(given.field("filters"), str(error)) from error


class _Trigger:
    """One trigger of a Sensor while it is read."""

    def __init__(self, resource: Resource, path: str, value: object, dependencies: _Dependencies) -> None:
        self._resource, self._path, self._value = resource, path, value
        self._dependencies = dependencies
        self._left_out: list[FieldNote] = []
        self._differs: list[FieldNote] = []
        self._refused: list[FieldNote] = []
        self._made: dict[str, Any] = {}

    def read(self) -> Subscription:
        name = self._path
        with self._collecting_refusals():
            given = Members(self._value, self._path)
            template = given.members("template")
            name = template.text("name") or ""
            if _NAME.fullmatch(name) is None:
                raise NotTranslated(
                    template.field("name"), "it is missing, or has characters that a name cannot have"
                )
            with self._collecting_refusals():
                self._made["condition"] = self._condition(template)
            with self._collecting_refusals():
                self._read_kind(template, name)
            if given.take("atLeastOnce") is not True:
                self._differs.append(FieldNote(given.field("atLeastOnce"), _AT_MOST_ONCE))
            self._left_out += template.left({}, "no field of a template that is known here")
            self._left_out += given.left(_TRIGGER, "no field of a trigger that is known here")
        made = self._made if not self._refused else {}
        namespace = self._resource.namespace if self._resource.namespace != "default" else ""
        return Subscription(
            resource=f"{self._resource} trigger {name}",
            name=".".join(filter(None, (namespace, self._resource.name, name))),
            left_out=tuple(self._left_out),
            differs=tuple(self._differs),
            refused=tuple(self._refused),
            **made,
        )

    @contextmanager
    def _collecting_refusals(self) -> Iterator[None]:
        """Collects the reason if the part that is read in this block is refused."""
        try:
            yield
        except NotTranslated as error:
            self._refused.append(FieldNote(error.field, error.reason))

    def _condition(self, template: Members) -> Condition:
        field, known = template.field("conditions"), self._dependencies
        text = template.text("conditions")
        if not text:  # then it has all dependencies
            for reason in known.refused.values():
                raise NotTranslated(*reason)
            text = " && ".join(known.names())
            if not text:
                raise NotTranslated("spec.dependencies", "there are none, so nothing starts the trigger")
        used: dict[str, str] = {}

        def placeholder(found: re.Match[str]) -> str:
            name = known.named(found[0])
            if name is None:
                raise NotTranslated(field, f"{shown(found[0])} is not a dependency of the Sensor")
            return used.setdefault(name, f"d{len(used)}")

        if _BETWEEN_NAMES.fullmatch(_NAME.sub("", text)) is None or not _NAME.search(text):
            raise NotTranslated(field, f"{shown(text)} has more than names, &&, || and brackets")
        written = _NAME.sub(placeholder, text)
        for name in used:
            if name in known.refused:
                raise NotTranslated(*known.refused[name])
            self._differs += known.notes[name]
        try:
            found = parse(written, {used[name]: known.matchers[name] for name in used})
        except ConditionError as error:
            raise NotTranslated(field, str(error)) from error
        if "||" in text and _is_held(found):
            self._differs.append(FieldNote(field, _ONE_SIDE))
        return self._reset(found, template)

    def _reset(self, condition: Condition, template: Members) -> Condition:
        field = template.field("conditionsReset")
        for number, each in enumerate(template.items("conditionsReset")):
            by_time = Members(each, f"{field}[{number}]").members("byTime")
            cron, zone = by_time.text("cron") or "", by_time.text("timezone") or "UTC"
            if not _is_held(condition):
                self._left_out.append(FieldNote(by_time.path, _NOTHING_TO_RESET))
                continue
            try:
                condition = condition.resets(cron, timezone=zone)
            except ConditionError as error:
                raise NotTranslated(by_time.path, str(error)) from error
        return condition

    def _read_kind(self, template: Members, name: str) -> None:
        given = [each for each in KINDS if each in template]
        if len(given) != 1:
            raise NotTranslated(
                template.path, f"it has {', '.join(given) or 'no kind'}: give one kind of trigger"
            )
        [kind] = given
        values = template.members(kind)
        if kind == "http" and (values.text("method") or "POST").upper() == "POST":
            self._read_http(values)
            return
        self._made["function"] = "dispatch_dag"
        self._made["arguments"] = {"trigger_dag_id": name}
        self._differs.append(FieldNote(values.path, _TARGET.format(name)))

    def _read_http(self, values: Members) -> None:
        found = address(values.text("url") or "", values.field("url"), self._differs)
        timeout = values.take("timeout") or _DEFAULT_TIMEOUT_S
        if not isinstance(timeout, (int, float)) or not 0 < timeout <= 3600:
            raise NotTranslated(
                values.field("timeout"), f"{shown(timeout)} is not a number of seconds up to an hour"
            )
        self._left_out += values.left(_HTTP, "no field of http that is known here")
        arguments: dict[str, Any] = {"path": found.path} if found.path else {}
        arguments["retry"] = {"timeout_s": float(timeout)}
        self._made |= {"destination": found, "arguments": arguments}


def _is_held(condition: Condition) -> bool:
    """Whether more than one event may be needed, so that some are held meanwhile."""
    try:
        condition.resets("0 0 * * *", timezone="UTC")
    except ConditionError:
        return False
    return True
