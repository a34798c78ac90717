"""Knative's Triggers, with the Brokers beside them, as subscriptions with a sink.

Rules: Knative's control-plane specification and the resource definitions of eventing.knative.dev/v1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from .destinations import destination
from .documents import Resource
from .errors import NotTranslated
from .fields import FieldNote, Members
from .knative_delivery import delivery
from .knative_filters import matcher
from .subscription import Subscription, Unread

GROUP: Final = "eventing.knative.dev"
API_VERSION: Final = f"{GROUP}/v1"
ORDER: Final = "kafka.eventing.knative.dev/delivery.order"
_DEPENDENCY: Final = "knative.dev/dependency"
_INJECTION: Final = "eventing.knative.dev/injection"

# Fields that the cluster writes, not the author of the resource.
_OF_THE_CLUSTER: Final = frozenset(
    {"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink",
     "deletionTimestamp", "deletionGracePeriodSeconds"}
)  # fmt: skip
_ANNOTATIONS_OF_THE_CLUSTER: Final = frozenset(
    {"kubectl.kubernetes.io/last-applied-configuration", "eventing.knative.dev/creator",
     "eventing.knative.dev/lastModifier"}
)  # fmt: skip
_PARTS: Final = ("apiVersion", "kind", "metadata", "spec", "status")
_METADATA: Final = {
    "labels": "a DAG has tags: give them to deliver_dag",
    "ownerReferences": "a DAG is not removed together with another object",
    "finalizers": "nothing delays the removal of a DAG",
    "generateName": "give it a name",
}
_ANNOTATIONS: Final = {
    _DEPENDENCY: "no subscription here waits for a source to be ready",
    "eventing.knative.dev/broker.class": "the bus is Kafka",
    _INJECTION: "a bus is created with `airflow interlock topics create`",
}
_BROKER: Final = (
    "each subscription reads the whole bus. Where Brokers kept events apart, use a bus for each, or filter"
)
_BROKER_CONFIG: Final = "the bus is Kafka, and `airflow interlock topics create` makes its topics"
_THE_BUS: Final = "the bus replaces it; Triggers without a delivery spec get that of their Broker"
_EMPTY_DELIVERY: Final = (
    "it has no option, so its Broker's delivery applies, as Knative's specification says. The code of its"
    " Brokers takes it as no retries and no dead-letter sink: if you want that, write retry: 0"
)
_ORDERED: Final = (
    "Knative keeps the order of a partition of its topic. Here deliveries of one partitionkey (else subject,"
    " else source) keep their order, and in Knative too senders can rely on no more"
)


def subscriptions(resources: Iterable[Resource]) -> list[Subscription | Unread]:
    """Returns what becomes of each resource, in their order.

    A Trigger without delivery takes that of its Broker, if the Broker is among the resources.
    """
    resources = list(resources)
    brokers = {
        (_namespace(each.namespace), each.name): each
        for each in resources
        if _is(each, "Broker") and each.name
    }
    found: list[Subscription | Unread] = []
    taken = set[str]()
    for each in resources:
        if _is(each, "Trigger"):
            made = _Trigger(each, brokers).read()
            if made.name in taken and not made.refused:
                reason = FieldNote("metadata.name", "another Trigger of the file becomes the same DAG name")
                made = Subscription(resource=made.resource, name=made.name, refused=(reason,))
            taken.add(made.name)
            found.append(made)
        elif _is(each, "Broker"):
            found.append(_broker(each))
        else:
            found.append(Unread(str(each), _why_unread(each), is_other_version=_is_of_another_version(each)))
    return found


def _is(resource: Resource, kind: str) -> bool:
    return resource.kind == kind and resource.api_version == API_VERSION


def _is_of_another_version(resource: Resource) -> bool:
    return resource.kind in ("Trigger", "Broker") and resource.api_version.startswith(f"{GROUP}/")


def _why_unread(resource: Resource) -> str:
    if _is_of_another_version(resource):
        return (
            f"apiVersion is {resource.api_version}: only {API_VERSION} is read, which `kubectl get -o yaml`"
            " gives"
        )
    return f"it is not a Trigger or Broker of {API_VERSION}"


class _Trigger:
    """One Trigger while it is read.

    All parts are read, so that the reader sees all reasons for a refusal at once.
    """

    def __init__(self, resource: Resource, brokers: Mapping[tuple[str, str], Resource]) -> None:
        self._resource = resource
        self._brokers = brokers
        self._left_out: list[FieldNote] = []
        self._differs: list[FieldNote] = []
        self._refused: list[FieldNote] = []
        self._name = ""
        self._given: dict[str, Any] = {}
        self._arguments: dict[str, Any] = {}

    def read(self) -> Subscription:
        resource, spec = self._resource, Members(None, "spec")
        with self._collecting_refusals():
            spec = Members(resource.value.get("spec"), "spec")
        with self._collecting_refusals():
            self._name = _name(resource)
        with self._collecting_refusals():
            self._given["condition"], notes = matcher(spec)
            self._differs += notes
        with self._collecting_refusals():
            self._read_destination(spec)
        with self._collecting_refusals():
            self._read_order()
        with self._collecting_refusals():
            self._read_delivery(spec)
        with self._collecting_refusals():
            self._differs.append(_broker_note(spec))
        self._left_out += spec.left({}, "no field of a Trigger that is known here")
        self._left_out += [
            FieldNote(each, "no part of a Trigger") for each in resource.value if each not in _PARTS
        ]
        return Subscription(
            resource=str(resource),
            name=self._name,
            refused=tuple(self._refused),
            left_out=tuple(self._left_out),
            differs=tuple(self._differs),
            **({} if self._refused else {**self._given, "arguments": self._arguments}),
        )

    @contextmanager
    def _collecting_refusals(self) -> Iterator[None]:
        """Collects the reason if the part that is read in this block is refused."""
        try:
            yield
        except NotTranslated as error:
            note = FieldNote(error.field, error.reason)
            if note not in self._refused:
                self._refused.append(note)

    def _read_destination(self, spec: Members) -> None:
        resolved = Members(self._resource.value.get("status"), "status").text("subscriberUri")
        found, left = destination(
            spec.members("subscriber"), self._resource.namespace, resolved, self._differs
        )
        self._left_out += left
        self._given["destination"] = found
        if found.path:
            self._arguments["path"] = found.path

    def _read_order(self) -> None:
        self._arguments["order"] = order = _order(self._resource, self._left_out)
        if order == "key":
            self._differs.append(FieldNote(f"metadata.annotations[{ORDER}]", _ORDERED))

    def _read_delivery(self, spec: Members) -> None:
        is_there, given = "delivery" in spec, spec.members("delivery")
        broker = self._brokers.get(_named_broker(self._resource))
        if not given and broker is not None:
            of_broker = Members(broker.value.get("spec"), "Broker.spec")
            given = of_broker.members("delivery")
            if is_there and given:
                self._differs.append(FieldNote(spec.field("delivery"), _EMPTY_DELIVERY))
        found = delivery(given)
        self._left_out += found.left_out
        self._differs += found.differs
        if found.format is not None:
            self._arguments["format"] = found.format
        self._arguments["replies"] = True  # as Knative's Brokers do
        if found.retry:
            self._arguments["retry"] = dict(found.retry)


def _name(resource: Resource) -> str:
    """The Trigger's name, with its namespace before it if it is not the default one."""
    if not re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", resource.name):
        raise NotTranslated("metadata.name", "it is missing, or no name of Kubernetes")
    if resource.namespace in ("", "default"):
        return resource.name
    return f"{resource.namespace}.{resource.name}"


def _order(resource: Resource, left_out: list[FieldNote]) -> str:
    """The order of deliveries, which is the one part of the metadata with a counterpart here.

    All other parts are added to `left_out`. Raises NotTranslated for an unknown order.
    """
    metadata = Members(resource.value.get("metadata"), "metadata")
    for each in ("name", "namespace", *_OF_THE_CLUSTER):
        metadata.take(each)
    annotations = metadata.members("annotations")
    order = annotations.text(ORDER)
    for each in _ANNOTATIONS_OF_THE_CLUSTER:
        annotations.take(each)
    left_out += annotations.left(_ANNOTATIONS, "no annotation that is known here")
    left_out += metadata.left(_METADATA, "no metadata that is known here")
    if order not in (None, "ordered", "unordered"):
        raise NotTranslated(f"metadata.annotations[{ORDER}]", f"{order!r} is neither ordered nor unordered")
    return "key" if order == "ordered" else "none"


def _broker_note(spec: Members) -> FieldNote:
    """What becomes of the Trigger's Broker. Raises NotTranslated if it names none, or two."""
    name = spec.text("broker")
    ref = spec.members("brokerRef")
    if not name and not ref:
        raise NotTranslated(spec.field("broker"), "it is missing")
    if name and ref:
        raise NotTranslated(spec.field("brokerRef"), "broker is given too: Knative takes only one of them")
    return FieldNote(spec.field("broker" if name else "brokerRef"), _BROKER)


def _named_broker(resource: Resource) -> tuple[str, str]:
    """Namespace and name of the Broker, as far as they can be read."""
    spec = resource.value.get("spec")
    spec = spec if isinstance(spec, Mapping) else {}
    ref = spec.get("brokerRef")
    ref = ref if isinstance(ref, Mapping) else {}
    return _namespace(str(ref.get("namespace") or resource.namespace)), str(
        spec.get("broker") or ref.get("name") or ""
    )


def _namespace(text: str) -> str:
    return text or "default"


def _broker(resource: Resource) -> Unread:
    """A Broker is no subscription: its delivery is read with the Triggers that have none."""
    left_out: list[FieldNote] = []
    try:
        _order(resource, left_out)  # for the notes: an order belongs to a Trigger
        spec = Members(resource.value.get("spec"), "spec")
        spec.take("delivery")
        left_out += spec.left({"config": _BROKER_CONFIG}, "no field of a Broker that is known here")
    except NotTranslated as error:
        left_out.append(FieldNote(error.field, error.reason))
    return Unread(str(resource), _THE_BUS, tuple(left_out))
