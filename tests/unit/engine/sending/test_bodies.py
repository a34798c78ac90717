"""What a sink answers, without the secrets of its connection."""

from __future__ import annotations

import pytest
from interlock.engine.sending.bodies import blanked


@pytest.mark.parametrize("secrets", [("-prod-", "token-prod-12345678"), ("token-prod-12345678", "-prod-")])
def test_no_part_of_a_secret_that_contains_another_one_remains(secrets: tuple[str, ...]) -> None:
    assert blanked(b"wrong: token-prod-12345678", secrets) == b"wrong: ***"
