"""The lowest open offset."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from interlock.engine.delivery.open_offsets import OpenOffsets


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20))))
def test_the_lowest_is_that_of_a_set_of_the_same_offsets(steps: list[tuple[bool, int]]) -> None:
    offsets, model = OpenOffsets(), set[int]()
    for adds, offset in steps:
        if adds:
            offsets.add(offset)
            model.add(offset)
        else:
            offsets.remove(offset)
            model.discard(offset)
        assert offsets.lowest() == min(model, default=None)
        assert len(offsets) == len(model)


def test_adding_and_removing_does_not_grow_without_end() -> None:
    offsets = OpenOffsets()
    offsets.add(5)
    for _ in range(1000):  # a commit that is tried again and again
        offsets.remove(5)
        offsets.add(5)
    assert len(offsets._heap) < 10
