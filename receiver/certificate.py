"""The names in a verified client certificate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def names_of(certificate: Mapping[str, Any] | None) -> frozenset[str]:
    """`CN=...` of the subject if it has exactly one, and `DNS:...` and `URI:...` of the alternative names.

    certificate: as `ssl.SSLSocket.getpeercert` returns it; empty or None if none was sent and verified.
    """
    if not certificate:
        return frozenset()
    common = [
        value for parts in certificate.get("subject", ()) for name, value in parts if name == "commonName"
    ]
    names = [f"CN={common[0]}"] if len(common) == 1 else []
    names += [
        f"{kind}:{value}" for kind, value in certificate.get("subjectAltName", ()) if kind in ("DNS", "URI")
    ]
    return frozenset(names)
