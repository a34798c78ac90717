"""Where a Knative Destination is: an address for an Airflow connection, and a path."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import SplitResult, unquote, urljoin, urlsplit, urlunsplit

from ..events.attributes import shown
from .errors import NotTranslated
from .fields import FieldNote, Members

_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_NO_ADDRESS: Final = (
    "its address is not in the document: `kubectl get -o yaml` shows it as status.subscriberUri of the"
    " Trigger. Give it to the connection as its host"
)
_LEFT: Final = {
    "CACerts": "write these certificates into a file, whose path is `verify` in the extra of the connection",
    "audience": (
        "deliveries send no OIDC token of Knative. Give the connection credentials that the subscriber"
        " takes, such as those of an OAuth client (`token_url`)"
    ),
}
_IN_CLUSTER: Final = (".svc", ".svc.cluster.local")
_PRIVATE: Final = (
    "its address is private: `[interlock] delivery_networks` must have the network of the cluster's services"
)
# As `deliver_dag` takes it.
_PATH: Final = re.compile(r"([/?]([A-Za-z0-9\-._~!$&'()*+,;=:@/?]|%[0-9A-Fa-f]{2})*)?")
_UNKNOWN_HOST: Final = "http://unknown"
_UNKNOWN: Final = "no field of a Destination"


@dataclass(frozen=True)
class Destination:
    """host: scheme, name and port, such as http://orders.shop.svc; None if the resource does not say it.

    path: added to it, with the query; "" for the root.
    """

    host: str | None
    path: str = ""


def destination(
    given: Members, namespace: str, resolved: str | None, notes: list[FieldNote]
) -> tuple[Destination, list[FieldNote]]:
    """Returns the destination, and the fields that are left out. Raises NotTranslated.

    resolved: the address that the cluster found, from the resource's status. notes: what the reader has to do
    is added to them.
    """
    has_ref, uri = "ref" in given, given.text("uri")
    path, ref_path = given.path, given.field("ref")
    base = _of_ref(given.members("ref"), namespace)
    if not has_ref and uri is None:
        raise NotTranslated(path, "it has neither ref nor uri")
    left = given.left(_LEFT, _UNKNOWN)
    if resolved:
        return address(resolved, "status.subscriberUri", notes), left
    if not has_ref:
        return address(uri or "", given.field("uri"), notes), left
    if base is None:
        found = address(urljoin(_UNKNOWN_HOST, uri or ""), given.field("uri"), notes)
        if found.host != _UNKNOWN_HOST:
            return found, left
        notes.append(FieldNote(ref_path, _NO_ADDRESS))
        return replace(found, host=None), left
    return address(urljoin(base, uri or ""), given.field("uri"), notes), left


def _of_ref(ref: Members, namespace: str) -> str | None:
    """The address of a Service of Kubernetes, which its name gives; None for anything else."""
    if not ref:
        return None
    names = {name: ref.text(name) or "" for name in ("apiVersion", "kind", "name", "namespace")}
    other = ref.text("group") or ref.text("address")  # experimental: they say where the object is
    for each in ref.left({}, "no field of a reference"):
        raise NotTranslated(each.field, each.text)
    for name in ("kind", "name"):
        if not names[name]:
            raise NotTranslated(ref.field(name), "it is missing")
    namespace = names["namespace"] or namespace
    if (names["apiVersion"], names["kind"]) != ("v1", "Service") or not namespace or other:
        return None
    for text in (names["name"], namespace):
        if _LABEL.fullmatch(text) is None:
            raise NotTranslated(ref.field("name"), f"{shown(text)} is not a name that Kubernetes allows")
    return f"http://{names['name']}.{namespace}.svc"


def address(uri: str, path: str, notes: list[FieldNote]) -> Destination:
    """Returns the destination at an absolute address. Raises NotTranslated. path: of its field."""
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError as error:
        raise NotTranslated(path, f"{shown(_without_user(uri))} is not an address: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise NotTranslated(path, f"{shown(_without_user(uri))} is not an absolute address of http or https")
    if parts.username is not None:
        notes.append(FieldNote(path, "login and password are not shown: give them to the connection"))
    if parts.fragment:
        notes.append(FieldNote(path, "the part after # is never sent"))
    name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    if name.endswith(_IN_CLUSTER):
        notes.append(FieldNote(path, _PRIVATE))
    host = f"{parts.scheme}://{name}" + (f":{port}" if port is not None else "")
    return Destination(host, _path(urlunsplit(SplitResult("", "", parts.path, parts.query, "")), path))


def _path(text: str, field: str) -> str:
    steps = re.split(r"[/\\]", unquote(text.partition("?")[0]))
    if _PATH.fullmatch(text) is None or text.startswith("//") or not {".", ".."}.isdisjoint(steps):
        raise NotTranslated(
            field, f"{shown(text)} is not a path that deliver_dag takes: percent-encode it, without .."
        )
    return text


def _without_user(uri: str) -> str:
    return re.sub(r"//[^/?#]*@", "//", uri)
