"""Reading any input gives a value or a ConditionError. `make fuzz-forms` runs longer."""

from __future__ import annotations

import contextlib
import random

import pytest
from interlock.conditions import ConditionError

from .hostile import READERS


@pytest.mark.parametrize("kind", READERS)
def test_a_random_input_is_read_or_refused(kind: str) -> None:
    """Some inputs are valid, so that not only the first check of a reader is tested."""
    valid = 0
    for seed in range(120):
        given = READERS[kind].random_input(random.Random(seed))
        try:
            with contextlib.suppress(ConditionError):
                READERS[kind].read(given)
                valid += 1
        except Exception as error:
            raise AssertionError(f"{kind}, seed {seed}: {given!r:.300}") from error
    assert valid >= 2


@pytest.mark.parametrize("kind", READERS)
def test_the_costliest_known_inputs_are_read_or_refused(kind: str) -> None:
    for name, given in READERS[kind].worst():
        try:
            with contextlib.suppress(ConditionError):
                READERS[kind].read(given)
        except Exception as error:
            raise AssertionError(f"{kind}: {name}") from error
