"""Waiting for a fact. Pauses between polls grow: each poll of Airflow's REST API takes CPU from Airflow."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TypeVar

from tenacity import Retrying, retry_if_result, stop_after_delay, wait_exponential

T = TypeVar("T")
_PAUSES = wait_exponential(multiplier=0.05, exp_base=1.5, max=1.0)


def poll(fact: Callable[[], T], timeout_s: float) -> T:
    """Returns the first true value of `fact()`; after `timeout_s` seconds its last value, which is false."""
    return Retrying(
        retry=retry_if_result(operator.not_),
        stop=stop_after_delay(timeout_s),
        wait=_PAUSES,
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
    )(fact)
