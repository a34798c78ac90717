"""A file with Triggers and Brokers becomes subscriptions, and each field of it is taken, named or refused."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from typing import Any

import pytest
from interlock import event
from interlock.migrate.documents import Resource
from interlock.migrate.knative import ORDER, subscriptions
from interlock.migrate.source import dag_file
from interlock.migrate.subscription import Subscription, Unread

# All fields of eventing.knative.dev/v1: spec of a Trigger and of a Broker, delivery, destination, filters.
TRIGGER: dict[str, Any] = {
    "apiVersion": "eventing.knative.dev/v1",
    "kind": "Trigger",
    "metadata": {"name": "orders", "namespace": "shop"},
    "spec": {
        "broker": "default",
        "filter": {"attributes": {"type": "com.shop.paid"}},
        "subscriber": {"uri": "http://orders.shop.svc/in"},
        "delivery": {"retry": 3, "backoffPolicy": "exponential", "backoffDelay": "PT1S", "format": "json"},
    },
}
BROKER: dict[str, Any] = {
    "apiVersion": "eventing.knative.dev/v1",
    "kind": "Broker",
    "metadata": {"name": "default", "namespace": "shop"},
    "spec": {"delivery": {"retry": 7}},
}


def changed(given: dict[str, Any], **members: Any) -> dict[str, Any]:
    """The resource with members at dotted paths (with _ for the dots); None removes one."""
    found = copy.deepcopy(given)
    for path, value in members.items():
        *above, last = path.split("_")
        place = found
        for each in above:
            place = place[each]
        if value is None:
            place.pop(last)
        else:
            place[last] = value
    return found


def read(*given: dict[str, Any]) -> list[Subscription | Unread]:
    return subscriptions([Resource(f"document {number}", each) for number, each in enumerate(given, 1)])


def one(*given: dict[str, Any]) -> Subscription:
    [found] = [each for each in read(*given) if isinstance(each, Subscription)]
    return found


def test_a_trigger_becomes_a_subscription_with_a_sink() -> None:
    found = one(TRIGGER)
    assert (found.name, found.conn_id) == ("shop.orders", "shop.orders")
    assert found.condition == event("com.shop.paid")
    assert (found.destination.host, found.destination.path) == ("http://orders.shop.svc", "/in")
    assert dict(found.arguments) == {
        "path": "/in",
        "order": "none",
        "format": "json",
        "replies": True,
        "retry": {"delay_s": 1.0, "jitter": 0.0, "tries": 4, "least_tries": 4},
    }
    assert found.left_out == ()
    assert [note.field for note in found.differs] == ["spec.subscriber.uri", "spec.broker"]


@pytest.mark.parametrize(("namespace", "name"), [("default", "orders"), (None, "orders"), ("a", "a.orders")])
def test_the_namespace_is_part_of_the_name_unless_it_is_the_default_one(namespace: Any, name: str) -> None:
    assert one(changed(TRIGGER, metadata_namespace=namespace)).name == name


def test_the_address_that_the_cluster_found_counts() -> None:
    ref = {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "name": "o"}
    found = one(
        {**changed(TRIGGER, spec_subscriber={"ref": ref}), "status": {"subscriberUri": "http://o.example/x"}}
    )
    assert (found.destination.host, found.destination.path) == ("http://o.example", "/x")


def test_a_trigger_without_delivery_has_that_of_its_broker() -> None:
    without = changed(TRIGGER, spec_delivery=None)
    for each in (without, changed(TRIGGER, spec_delivery={})):
        assert one(BROKER, each).arguments["retry"]["tries"] == 8
    assert "retry" not in one(without).arguments
    assert "retry" not in one(changed(BROKER, metadata_namespace="other"), without).arguments
    by_ref = changed(without, spec_broker=None, spec_brokerRef={"name": "default"})
    assert one(BROKER, by_ref).arguments["retry"]["tries"] == 8


def test_an_empty_delivery_has_no_option_and_a_note_says_that_knatives_code_differs() -> None:
    """knative/eventing, pkg/reconciler/broker/trigger/trigger.go: there only an absent one is replaced."""
    empty, without = (changed(TRIGGER, spec_delivery=each) for each in ({}, None))
    assert "spec.delivery" in dict(one(BROKER, empty).differs)
    assert "spec.delivery" not in dict(one(BROKER, without).differs)
    assert "spec.delivery" not in dict(one(changed(BROKER, spec_delivery=None), empty).differs)


def test_what_is_left_out_of_a_brokers_delivery_is_named_as_its() -> None:
    broker = changed(BROKER, spec_delivery={"retry": 1, "deadLetterSink": {"uri": "http://d"}})
    [note] = one(broker, changed(TRIGGER, spec_delivery=None)).left_out
    assert note.field == "Broker.spec.delivery.deadLetterSink"


def test_no_namespace_is_the_default_one_for_a_trigger_and_its_broker() -> None:
    broker = changed(BROKER, metadata_namespace=None)
    without = changed(TRIGGER, spec_delivery=None, metadata_namespace="default")
    assert one(broker, without).arguments["retry"]["tries"] == 8


def test_any_delivery_of_a_trigger_replaces_its_brokers_as_a_whole() -> None:
    found = one(BROKER, changed(TRIGGER, spec_delivery={"timeout": "PT5S"}))
    assert found.arguments["retry"] == {"timeout_s": 5.0}


@pytest.mark.parametrize(("given", "order"), [("ordered", "key"), ("unordered", "none"), (None, "none")])
def test_the_order_is_that_of_the_annotation(given: Any, order: str) -> None:
    annotated = changed(TRIGGER, metadata_annotations={} if given is None else {ORDER: given})
    assert one(annotated).arguments["order"] == order


def test_a_broker_is_the_bus_and_other_resources_are_not_read() -> None:
    channel = {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel", "metadata": {"name": "c"}}
    old = changed(TRIGGER, apiVersion="eventing.knative.dev/v1beta1")
    found = read(changed(BROKER, spec_config={"name": "x"}), channel, old)
    assert [type(each) for each in found] == [Unread] * 3
    assert [each.resource for each in found] == ["Broker shop/default", "Channel c", "Trigger shop/orders"]
    assert [note.field for note in found[0].left_out] == ["spec.config"]
    assert "only eventing.knative.dev/v1 is read" in found[2].reason  # type: ignore[union-attr]
    assert [each.is_other_version for each in found] == [False, False, True]  # type: ignore[union-attr]


def test_a_second_trigger_of_the_same_name_is_refused() -> None:
    first, second = read(TRIGGER, TRIGGER)
    assert isinstance(second, Subscription)
    assert first.left_out == ()
    assert second.condition is None
    assert second.refused[0].field == "metadata.name"


def test_all_reasons_against_a_trigger_are_told_at_once() -> None:
    found = one(changed(
        TRIGGER, metadata_name="A b", metadata_annotations={ORDER: "fifo"}, spec_broker=None,
        spec_filter={"attributes": {"type": 1}}, spec_subscriber={}, spec_delivery={"retry": -1},
    ))  # fmt: skip
    assert {note.field for note in found.refused} == {
        "metadata.name", f"metadata.annotations[{ORDER}]", "spec.broker", "spec.filter.attributes.type",
        "spec.subscriber", "spec.delivery.retry",
    }  # fmt: skip
    assert found.condition is None
    assert found.arguments == {}


def test_a_trigger_with_two_brokers_is_refused() -> None:
    [note] = one(changed(TRIGGER, spec_brokerRef={"kind": "Broker", "name": "default"})).refused
    assert (note.field, note.text) == (
        "spec.brokerRef",
        "broker is given too: Knative takes only one of them",
    )


@pytest.mark.parametrize("spec", [None, [], "a"])
def test_a_trigger_without_a_spec_is_refused(spec: Any) -> None:
    given = {**TRIGGER, "spec": spec}
    assert one(given).refused


LEFT_OUT = {
    "metadata.labels": {"a": "b"},
    "metadata.finalizers": ["a"],
    "metadata.ownerReferences": [{"kind": "A"}],
    "metadata.other": 1,
    "metadata.annotations[knative.dev/dependency]": "{}",
    "metadata.annotations[eventing.knative.dev/injection]": "enabled",
    "metadata.annotations[a/b]": "c",
    "spec.other": 1,
    "spec.subscriber.CACerts": "---",
    "spec.subscriber.audience": "a",
    "spec.delivery.deadLetterSink": {"uri": "http://d"},
    "spec.delivery.other": {"a": 1},
    "other": 1,
}


@pytest.mark.parametrize("field", LEFT_OUT)
def test_a_field_without_a_counterpart_is_named_with_its_reason(field: str) -> None:
    given = copy.deepcopy(TRIGGER)
    place, last = given, field
    if "[" in field:
        place, last = given["metadata"].setdefault("annotations", {}), field.partition("[")[2].rstrip("]")
    else:
        *above, last = field.split(".")
        for each in above:
            place = place[each]
    place[last] = LEFT_OUT[field]
    [note] = one(given).left_out
    assert note.field == field
    assert len(note.text) > 10


@pytest.mark.parametrize(
    "field", ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"]
)
def test_fields_that_the_cluster_writes_change_nothing(field: str) -> None:
    assert one(changed(TRIGGER, **{f"metadata_{field}": "1"}, status={"conditions": []})) == one(TRIGGER)


def test_a_condition_says_in_the_dag_file_what_it_is() -> None:
    filters = [
        {"any": [{"prefix": {"class": "a"}}, {"not": {"exact": {"subject": "Sql(x)"}}}]},
        {"cesql": "EXISTS a"},
    ]
    found = one(changed(TRIGGER, spec_filters=filters))
    source = dag_file([found, one(changed(TRIGGER, metadata_name="2.for"))])
    given: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    names: dict[str, Any] = {"deliver_dag": lambda *args, **named: given.append((args, named))}
    assert {"airflow", "dag"} <= set(re.findall("airflow|dag", source))  # else Airflow skips the file
    lines = [line for line in source.splitlines() if line != "from interlock.operators import deliver_dag"]
    exec("\n".join(lines), names)
    assert [(args, named["condition"]) for args, named in given] == [
        (("shop.orders",), found.condition),
        (("shop.2.for",), event("com.shop.paid")),
    ]
    assert given[0][1]["retry"]["tries"] == 4
    assert set(given[0][1]) == {"condition", "conn_id", "path", "order", "format", "replies", "retry"}
    assert dag_file([]) == ""


@pytest.mark.parametrize("name", ["event", "deliver-dag", "for", "2", "dag"])
def test_a_trigger_with_a_name_that_the_dag_file_uses_changes_no_other_dag(name: str) -> None:
    filters = [{"cesql": "EXISTS a"}]
    triggers = [changed(TRIGGER, metadata_name=each, spec_filters=filters) for each in (name, "orders")]
    found = [one(each) for each in triggers]
    found = [replace(each, name=each.name.removeprefix("shop.")) for each in found]
    given: list[Any] = []
    names: dict[str, Any] = {"deliver_dag": lambda *args, **named: given.append((args, named["condition"]))}
    exec(dag_file(found).replace("from interlock.operators import deliver_dag", ""), names)
    assert given == [((each.name,), each.condition) for each in found]


def test_each_dag_of_the_file_has_a_variable_of_its_own() -> None:
    """Airflow finds the DAGs of a file in its variables."""
    made = ("shop-orders", "shop.orders", "shop-orders.")
    found = [replace(one(TRIGGER), name=each) for each in made]
    names: dict[str, Any] = {"deliver_dag": lambda name, **_: [name]}
    exec(dag_file(found).replace("from interlock.operators import deliver_dag", ""), names)
    assert [each for each in names.values() if isinstance(each, list)] == [[each] for each in made]
