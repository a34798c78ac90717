"""The figures of a backtest: as text, and as one JSON object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from .backtest import Backtest
from .deliveries.figures import DeliveryFigures
from .deliveries.wording import lines_of
from .lines import line, moment

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_MOST_REASONS: Final = 20


@dataclass(frozen=True)
class ReasonCount:
    """The near misses of one matcher for the same reason. text: the reason of the first one."""

    label: str | None
    why: str
    term: str | None
    count: int
    text: str


@dataclass(frozen=True)
class ConditionFigures:
    """The figures of one condition. keys: how many fired. missing: {label: pending keys that lack it}.

    expires: whether the condition has an expiry. deliveries: None without a sink.
    """

    condition: str
    expires: bool
    merge_independent: bool
    met: int
    expired: int
    keys: int
    pending: int
    missing: Mapping[str, int]
    near_misses: int
    reasons: Sequence[ReasonCount]
    deliveries: DeliveryFigures | None = None

    @staticmethod
    def of(backtest: Backtest) -> ConditionFigures:
        """The figures of a backtest; computes it if necessary."""
        from pyspark.sql import functions as f

        condition = backtest.question.condition
        counts = backtest.firings.agg(
            f.count_if(f.col("outcome") == "met").alias("met"),
            f.count_if(f.col("outcome") == "expired").alias("expired"),
            f.count_distinct(f.coalesce("key", f.lit(""))).alias("keys"),
        ).collect()[0]
        lacking = (
            backtest.pending.select(f.explode("missing").alias("label")).groupBy("label").agg(_row_count())
        ).collect()
        reasons = (
            backtest.near_misses.groupBy("label", "why", "term")
            .agg(f.first("count").alias("n"), f.first("text").alias("text"))
            .orderBy(f.desc("n"), "label", "why", "term")
            .collect()  # of 256 matchers at most, with as many reasons as they have terms
        )
        return ConditionFigures(
            str(condition),
            condition.plan.expires,
            condition.merge_independent,
            counts["met"],
            counts["expired"],
            counts["keys"],
            backtest.pending.count(),
            {row["label"]: row["n"] for row in sorted(lacking, key=lambda row: (-row["n"], row["label"]))},
            sum(row["n"] for row in reasons),
            [ReasonCount(row["label"], row["why"], row["term"], row["n"], row["text"]) for row in reasons],
        )

    def lines(self, until: str | None) -> Iterator[str]:
        """until: the last event, if the backtest ended there and not at a given time."""
        yield line("condition", self.condition)
        yield line("firings", f"{self.met:,} met, {self.expired:,} expired, for {self.keys:,} keys")
        if self.expires and until is not None:
            yield line(
                "expiry",
                f"evaluated until the last event, {until}: what expires later is pending. Give --until to run"
                " timers longer",
            )
        elif not self.expires:
            yield line("expiry", "the condition has none, so nothing expires; add .expires(...) to it")
        missing = ", ".join(f"{label} {count:,}" for label, count in self.missing.items())
        yield line(
            "pending", f"{self.pending:,} keys half met" + (f"; missing: {missing}" if missing else "")
        )
        yield line("near misses", f"{self.near_misses:,}")
        for reason in self.reasons[:_MOST_REASONS]:
            yield line("", f"{reason.count:,} {reason.label or '(no matcher)'}: {reason.text}")
        if len(self.reasons) > _MOST_REASONS:
            yield line("", f"and {len(self.reasons) - _MOST_REASONS} more reasons")
        if self.deliveries is not None:
            yield from lines_of(self.deliveries)


@dataclass(frozen=True)
class Summary:
    """The figures of a run. events, ascending: see `Log`. changes: {change: firings}.

    until_ms: timers ran up to it. until_given: False if it is the moment after the last event.
    """

    events: int
    since_ms: int | None
    until_ms: int
    until_given: bool
    ascending: bool
    before: ConditionFigures
    after: ConditionFigures | None
    changes: Mapping[str, int] | None
    duration_s: float

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    def __str__(self) -> str:
        since = "the beginning" if self.since_ms is None else moment(self.since_ms)
        stamps = "set by brokers" if self.ascending else "set by producers, at least some"
        until = None if self.until_given else moment(max(self.until_ms - 1, 0))
        lines = [
            line("events", f"{self.events:,} from {since} until {moment(self.until_ms)}"),
            line("timestamps", stamps),
            *self.before.lines(until),
        ]
        if self.after is not None and self.changes is not None:
            changes = ", ".join(
                f"{self.changes.get(name, 0):,} {word}"
                for name, word in (
                    ("same", "the same"),
                    ("moved", "at another time"),
                    ("gone", "gone"),
                    ("new", "new"),
                )
            )
            lines += ["", "compared with", *self.after.lines(until), line("changes", changes)]
        lines.append(line("took", f"{self.duration_s:.1f} s"))
        return "\n".join(lines)


def changes_of(compared: DataFrame) -> dict[str, int]:
    """{change: number of firings} of a comparison."""
    return {row["change"]: row["n"] for row in compared.groupBy("change").agg(_row_count()).collect()}


def _row_count() -> Column:
    from pyspark.sql import functions as f

    return f.count("*").alias("n")
