"""What peers are told to wait for is one wait's event."""

from __future__ import annotations

from types import SimpleNamespace

from bench.peers.accepting import only


def test_a_message_is_for_the_wait_of_its_key_alone() -> None:
    message = SimpleNamespace(value=lambda: b'{"k": "k7"}')
    assert only(message, "k7") == '{"k": "k7"}'
    assert only(message, "k8") is None
