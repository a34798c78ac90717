"""A destination is the host of a connection and a path, or it is said what is not known."""

from __future__ import annotations

from typing import Any

import pytest
from interlock.migrate.destinations import Destination, destination
from interlock.migrate.errors import NotTranslated
from interlock.migrate.fields import FieldNote, Members

SERVICE = {"apiVersion": "v1", "kind": "Service", "name": "orders"}
KSERVICE = {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "name": "orders"}


def read(
    resolved: str | None = None, namespace: str = "shop", **given: Any
) -> tuple[Destination, dict[str, str]]:
    notes: list[FieldNote] = []
    found, left = destination(Members(given, "subscriber"), namespace, resolved, notes)
    return found, dict([*notes, *left])


@pytest.mark.parametrize(
    ("given", "host", "path"),
    [
        ({"uri": "https://a.example.com"}, "https://a.example.com", ""),
        ({"uri": "http://a:8080/in?x=1"}, "http://a:8080", "/in?x=1"),
        ({"uri": "http://[::1]:80/"}, "http://[::1]:80", "/"),
        ({"ref": SERVICE}, "http://orders.shop.svc", ""),
        ({"ref": {**SERVICE, "namespace": "other"}}, "http://orders.other.svc", ""),
        ({"ref": SERVICE, "uri": "/update"}, "http://orders.shop.svc", "/update"),
        ({"ref": SERVICE, "uri": "update?a=b"}, "http://orders.shop.svc", "/update?a=b"),
        ({"ref": SERVICE, "uri": "https://x.example.com/a"}, "https://x.example.com", "/a"),
        ({"ref": KSERVICE, "resolved": "http://orders.shop/v1"}, "http://orders.shop", "/v1"),
        ({"ref": KSERVICE, "uri": "http://x/y"}, "http://x", "/y"),
    ],
    ids=str,
)  # fmt: skip
def test_the_address_is_host_and_path(given: Any, host: str, path: str) -> None:
    found, notes = read(**given)
    assert (found.host, found.path) == (host, path)
    assert [text for text in notes.values() if "delivery_networks" not in text] == []


@pytest.mark.parametrize(
    "given",
    [{"ref": KSERVICE}, {"ref": {**SERVICE, "apiVersion": "v2"}}, {"ref": SERVICE, "namespace": ""}],
    ids=str,
)
def test_an_address_that_only_the_cluster_knows_is_left_to_the_connection(given: Any) -> None:
    found, notes = read(**given, uri="/a")
    assert found == Destination(None, "/a")
    assert "status.subscriberUri" in notes["subscriber.ref"]


def test_credentials_of_an_address_are_not_shown() -> None:
    found, notes = read(uri="https://me:secret@a/b")
    assert found == Destination("https://a", "/b")
    assert "secret" not in str(notes)
    assert "give them to the connection" in notes["subscriber.uri"]


def test_the_fragment_certificates_audience_and_what_is_unknown_are_named() -> None:
    _, notes = read(uri="http://a/b#c", CACerts="---", audience="x", other=1)
    assert set(notes) == {f"subscriber.{each}" for each in ("uri", "CACerts", "audience", "other")}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "subscriber"),
        ({"uri": "/a"}, "subscriber.uri"),
        ({"uri": "ftp://a"}, "subscriber.uri"),
        ({"uri": "http://"}, "subscriber.uri"),
        ({"uri": "http://u:secret@a:port"}, "subscriber.uri"),
        ({"uri": 5}, "subscriber.uri"),
        ({"uri": "http://a//b"}, "subscriber.uri"),
        ({"uri": "http://a/b/../c"}, "subscriber.uri"),
        ({"uri": "http://a/b/%2e%2e/c"}, "subscriber.uri"),
        ({"uri": "http://a/b c"}, "subscriber.uri"),
        ({"uri": "http://a/ä"}, "subscriber.uri"),
        ({"ref": "a"}, "subscriber.ref"),
        ({"ref": {"kind": "Service"}}, "subscriber.ref.name"),
        ({"ref": {**SERVICE, "uid": "1"}}, "subscriber.ref.uid"),
        ({"ref": {**SERVICE, "name": "a/b"}}, "subscriber.ref.name"),
        ({"ref": KSERVICE, "resolved": "nowhere"}, "status.subscriberUri"),
    ],
    ids=str,
)
def test_what_is_no_destination_is_refused_by_its_path(given: Any, field: str) -> None:
    with pytest.raises(NotTranslated) as caught:
        read(**given)
    assert caught.value.field == field
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("host", ["orders.shop.svc", "orders.shop.svc.cluster.local"])
def test_an_address_in_the_cluster_needs_a_setting_and_a_public_one_does_not(host: str) -> None:
    assert "delivery_networks" in read(uri=f"http://{host}/a")[1]["subscriber.uri"]
    assert read(uri="http://orders.example.com/a")[1] == {}


@pytest.mark.parametrize("more", ["group", "address"])
def test_a_reference_that_says_elsewhere_is_not_guessed(more: str) -> None:
    assert read(ref={**SERVICE, more: "a"})[0].host is None
