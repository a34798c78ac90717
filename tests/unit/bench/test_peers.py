"""A peer's filter accepts only its wait's event."""

from __future__ import annotations

from types import SimpleNamespace

from bench.peers.accepting import only


def test_a_message_is_accepted_only_for_its_key() -> None:
    message = SimpleNamespace(value=lambda: b'{"k": "k7"}')
    assert only(message, "k7") == '{"k": "k7"}'
    assert only(message, "k8") is None
