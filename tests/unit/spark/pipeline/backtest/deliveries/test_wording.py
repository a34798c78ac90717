"""The figures of deliveries as text."""

from __future__ import annotations

from dataclasses import replace

from interlock.spark.pipeline.backtest.deliveries.figures import Day, DeliveryFigures, Outage, Peak
from interlock.spark.pipeline.backtest.deliveries.wording import lines_of

AT = 1_795_046_400_000
ROW = {
    "fired_ms": AT, "lane": "key o1", "id": "f1", "type": "interlock.firing.met", "source": "/s",
    "subject": "o1\n", "key": "o1", "body_bytes": 1_200, "firing_id": "f1",
}  # fmt: skip
FIGURES = DeliveryFigures(
    sink={
        "subscription": "airflow/deliver/ship", "conn_id": "crm", "path": "/orders", "send": "firing",
        "format": "binary", "order": "key", "max_in_flight": 32, "replies": False,
    },
    deliveries=1_100,
    refused={},
    types={"interlock.firing.met": 1_000, "interlock.firing.expired": 100},
    lanes=90,
    busiest_lane=Peak(AT, 300, "key o1"),
    days=[Day(AT, 1_100, 880_000)],
    days_left_out=0,
    average_a_day=550.0,
    peak_day=Day(AT, 1_100, 880_000),
    peak_minute=Peak(AT + 60_000, 64),
    peak_second=Peak(AT, 40),
    peak_lane_minute=Peak(AT, 4, "key o1"),
    answer_within_ms=15_000,
    body_bytes=880_000,
    largest_body=1_200,
    largest_headers=331,
    large_headers=0,
    with_references=0,
    without_reply=0,
    outage=None,
    first=[ROW],
)  # fmt: skip


def test_the_text_has_what_a_person_needs_before_switching_a_sink_on() -> None:
    text = """
deliveries    1,100 to airflow/deliver/ship: POST /orders of connection crm; send firing, format binary
not sent      0
types         1,000 interlock.firing.met, 100 interlock.firing.expired
lanes         90, order key; the busiest one, 'key o1', gets 300
a day         550 on average; most on 2026-11-19: 1,100 with 880,000 bytes
peak          40 in a second, at 2026-11-19T00:00:00Z; 64 in a minute, at 2026-11-19T00:01Z
              4 in a minute of one lane, at 2026-11-19T00:00Z: key o1
keeps up      with 32 at a time: in the peak minute, if the sink answers within 15 s
size          800 bytes of body on average, 1,200 at most
              331 bytes of headers at most, without the connection's
first         2026-11-19T00:00:00.000Z  key o1  interlock.firing.met  f1  o1\\n  1,200 bytes
              and 1,099 more: see --output
"""
    assert [*lines_of(FIGURES)] == text.strip().splitlines()


def test_what_is_rare_has_a_line_only_if_it_occurs() -> None:
    figures = replace(
        FIGURES,
        refused={"an event is gone": 3},
        large_headers=2,
        with_references=4,
        without_reply=5,
        outage=Outage(3_600_000, 120, 12, 7, 200, 2_400),
    )
    lines = [*lines_of(figures)]
    assert lines[1:3] == ["not sent      3", "              3: an event is gone"]
    assert "              2 requests have more than 8,192, which servers often refuse" in lines
    assert "references    4 have data only as dataref: they do not fit" in lines
    assert "replies       5 would be refused: interlockhops is used up" in lines
    at = lines.index("outage        of 1 h: at most 120 wait at its end, 12 of them in one lane")
    assert lines[at + 1 : at + 3] == [
        "              up to 7 of them are given up for their age",
        "              then at least 2.4 s to catch up, if each answer takes 200 ms",
    ]


def test_lanes_that_are_not_known_or_do_not_wait_are_said_to_be_so() -> None:
    def lanes(order: str) -> str:
        figures = replace(FIGURES, sink={**FIGURES.sink, "order": order}, lanes=None, busiest_lane=None)
        return next(line for line in lines_of(figures) if line.startswith("lanes"))

    assert lanes("none") == "lanes         each delivery has its own, order none"
    assert lanes("partition") == "lanes         not known, order partition: give --partitions"


def test_without_deliveries_only_that_is_said() -> None:
    lines = [*lines_of(replace(FIGURES, deliveries=0))]
    assert [line.split("  ")[0] for line in lines] == ["deliveries", "not sent"]
