"""The deliveries of a backtest as a DataFrame. Its events are read again, with all attributes and data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from ..backtest import Backtest
from ..columns import ReadColumns
from .requests import COLUMNS, DELIVERIES, requests_in
from .sink import SinkQuestion

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# An event's record, and for a topic that was created again the event too.
_RECORD: Final = ("topic", "partition", "offset", "appended_ms", "source", "id")


class Deliveries:
    """The deliveries of the backtest's firings to a sink, computed when first read.

    They stay on the executors' disks until `close`. Bodies are never there: a task makes one, and keeps its
    size. No event's data reach the driver.
    """

    def __init__(self, backtest: Backtest, asked: SinkQuestion) -> None:
        self.backtest, self.asked = backtest, asked

    @cached_property
    def rows(self) -> DataFrame:
        """Rows of DELIVERIES: one for each firing, in no order."""
        from pyspark import StorageLevel

        asked = self.asked

        def requests(batches: Iterable[Any]) -> Iterator[Any]:
            return requests_in(asked, batches)

        sorted_rows = self._with_events().repartition("firing").sortWithinPartitions("firing", "place")
        return sorted_rows.select(*COLUMNS).mapInArrow(requests, DELIVERIES).persist(StorageLevel.DISK_ONLY)

    def _with_events(self) -> DataFrame:
        """A row for each event of each firing, with its attributes and data. One for a firing without."""
        from pyspark.sql import functions as f

        firings = self.backtest.firings
        fired = ("key", "outcome", "fired_ms", "timer_ms", "missing")
        # Exactly one pass reads the numbers, so that no firing has two.
        parts = (
            firings.withColumn("firing", f.monotonically_increasing_id())
            .select("firing", *fired, f.posexplode_outer("events").alias("place", "part"))
            .select("firing", "place", *fired, "part.label", *(f"part.{name}" for name in _RECORD))
        )
        taking_part = firings.select(f.explode("events").alias("part")).select(
            *(f.col(f"part.{name}").alias(name) for name in _RECORD)
        )
        events = (
            ReadColumns.of(self.asked.question.condition)
            .events_in(self.backtest.log.rows)
            .select(*_RECORD, "attributes", "data")
            .join(taking_part.distinct(), [*_RECORD], "left_semi")
        )
        # "merge": a broadcast of events would bring their data to the driver.
        return parts.join(events.hint("merge"), [*_RECORD], "left")

    def close(self) -> None:
        """Removes the rows from the executors' disks."""
        if "rows" in self.__dict__:
            self.rows.unpersist()
