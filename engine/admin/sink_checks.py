"""The doctor's check of sinks: whether deliveries could use their connections. No request is sent."""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Iterator
from typing import Final, TypeAlias

from yarl import URL

from ...conditions.explanation.wording import counted
from ..delivery.addresses import refusal
from ..registry.facts import BusFacts
from ..sending.target import ClientCredentials, SinkTarget, TargetError
from .alerts import Kind, alert_for
from .findings import Finding, SinkAccess
from .sinks import is_delivered, sink_of

MOST_NAMED: Final = 3  # sinks with the same fault
Resolve: TypeAlias = Callable[[str, int], Collection[str]]


def addresses_of(host: str, port: int) -> list[str]:
    """The addresses that a name stands for here. May take seconds. Raises OSError."""
    return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def check_sinks(
    registry: BusFacts, deployment: str, access: SinkAccess, resolve: Resolve = addresses_of
) -> Iterator[Finding]:
    """A finding for each fault, with the sinks that have it; and one about what was checked.

    Only the sinks of this deployment: nobody else has its connections. Checked are the connection's type,
    address, credentials and other fields, its certificate files, the path, and whether the addresses that the
    hosts stand for may be reached. A service that is down, or refuses the credentials, is not noticed.
    """
    named = [name for name in sorted(registry.sinks) if is_delivered(name)]
    own = [name for name in named if name.partition("/")[0] == deployment]
    targets: dict[str, SinkTarget | str] = {}
    faults: dict[str, list[str]] = {}
    for name in own:
        sink = sink_of(registry, name)
        if sink is None:
            text = "Its record cannot be read: run the version that wrote it."
        else:
            if sink.connection not in targets:
                targets[sink.connection] = _usable(sink.connection, access, resolve)
            found = targets[sink.connection]
            text = found if isinstance(found, str) else _path_fault(sink.connection, found, sink.path)
        if text:
            faults.setdefault(text, []).append(name)
    for text, names in faults.items():
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        found = f"{', '.join(names[:MOST_NAMED])}{more}: {text}"
        yield Finding("sinks", "wrong", found, alert_for(Kind.SINK_CONNECTION))
    if not faults:
        checked = f"; connections: {', '.join(sorted(targets))}. No request was sent." if own else "."
        others = len(named) - len(own)
        beside = f" Those of other deployments were not checked: {others}." if others else ""
        sinks = counted(len(own), "sink", "sinks")
        yield Finding("sinks", "ok", f"Deployment {deployment!r} has {sinks}{checked}{beside}")


def _usable(connection: str, access: SinkAccess, resolve: Resolve) -> SinkTarget | str:
    """The target of a connection; or what is wrong with it."""
    try:
        target = access.lookup(connection)
        if target.needs_tls:
            target.tls.context()
    except TargetError as e:
        text = str(e)
        return text if repr(connection) in text else f"Connection {connection!r}: {text}"
    urls = [target.url, *([target.auth.token_url] if isinstance(target.auth, ClientCredentials) else ())]
    for url in map(URL, urls):
        fault = _address_fault(url.host or "", url.port or 0, access, resolve)
        if fault:
            return f"Connection {connection!r}: {fault}"
    return target


def _address_fault(host: str, port: int, access: SinkAccess, resolve: Resolve) -> str:
    """Why no address of the host is allowed; "" if one is: a delivery connects to an allowed one."""
    try:
        found = [refusal(each, access.networks) for each in resolve(host, port)]
    except (OSError, UnicodeError):
        return f"the name of host {host!r} cannot be resolved here."
    return f"host {host!r}: {found[0]}." if found and all(found) else ""


def _path_fault(connection: str, target: SinkTarget, path: str) -> str:
    try:
        target.address(path)
    except TargetError as e:
        return f"Connection {connection!r}: {e}"
    return ""
