"""What an error of a request leaves behind."""

from __future__ import annotations

import pytest
from interlock.engine.sending.failures import free_frames


def test_frames_of_errors_whose_causes_are_in_a_circle_are_freed_once() -> None:
    first, second = OSError("first"), OSError("second")
    first.__cause__, second.__cause__ = second, first
    free_frames(first)


def test_the_frames_of_a_cause_lose_what_they_hold() -> None:
    def send(body: bytes) -> None:
        raise OSError(f"{len(body)} bytes are not sent")

    def post() -> None:
        try:
            send(b"body")
        except OSError as error:
            raise RuntimeError("no answer") from error

    with pytest.raises(RuntimeError) as raised:
        post()
    cause = raised.value.__cause__
    assert cause is not None
    assert cause.__traceback__ is not None
    frame = cause.__traceback__.tb_next
    assert frame is not None
    assert frame.tb_frame.f_locals == {"body": b"body"}
    free_frames(raised.value)
    assert frame.tb_frame.f_locals == {}
