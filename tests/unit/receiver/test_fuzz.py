"""Hostile requests: no answer 500, and no error in the log."""

from __future__ import annotations

import asyncio

import pytest

from tests.kit.commit import commit_number
from tests.unit.receiver.fuzz import ANSWERS, attack, serve

REQUESTS = 240


def test_no_request_gets_500_or_an_error_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """A short run; `make fuzz-http` is the long one."""
    seed = commit_number() % 2**31
    left = REQUESTS

    def goes_on() -> bool:
        nonlocal left
        left -= 1
        return left > 0

    async def check() -> None:
        served = await serve(seed)
        found = await attack(seed, served.port, goes_on)
        await served.close()
        assert set(found) <= ANSWERS | {0}, f"seed {seed}: {found}"
        assert served.bus.written, f"seed {seed}: no request was valid"

    asyncio.run(check())
    assert not [record for record in caplog.records if record.levelname == "ERROR"], f"seed {seed}"
