"""How events travel: the short way of a writer of JSON gives what the long way gives."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from interlock import Event
from interlock.engine.records.event_form import json_form, raw_form

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=10)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
TEXTS = VALUES.map(json.dumps) | VALUES.map(lambda value: json.dumps(value, ensure_ascii=False))


def event(data: bytes) -> Event:
    attributes = {
        "specversion": "1.0",
        "id": "1",
        "source": "/s",
        "type": "t",
        "datacontenttype": "application/json",
    }
    return Event(attributes, data)


def written(form: dict[str, Any]) -> object:
    return json.loads(msgspec.json.encode(form))


@given(TEXTS)
@example('{"a":9223372036854775807,"b":-9223372036854775808}')
@example('{"a":9223372036854775808}')
@example('{"a":1e400}')
@example('{"a":"\\u0000"}')
@example('{"a":01}')
@example("[" * 65 + "]" * 65)
@example('{"a":1}{')
def test_data_that_stay_encoded_become_the_same_json_as_decoded_data(text: str) -> None:
    given_event = event(text.encode("utf-8", "surrogatepass"))
    assert written(raw_form(given_event)) == written(json_form(given_event))


@pytest.mark.parametrize("data", [b'{"a":"\xff"}', b'"\xc3"', b"\xff", b'{"a":'])
def test_data_that_are_no_json_travel_as_base64(data: bytes) -> None:
    assert "data_base64" in raw_form(event(data))
