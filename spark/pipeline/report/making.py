"""Makes the report: reads an archive, writes the tables and the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ....events.visible import visible_logger
from ..archive.files import Files
from ..archive.layout import read
from .figures import Figures
from .page import check_can_draw, render
from .tables import Sources, make

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = visible_logger(__name__)

PAGE: Final = "report.html"


def make_report(
    spark: SparkSession,
    archive: str,
    output: str,
    *,
    since_ms: int | None = None,
    until_ms: int | None = None,
    now_ms: int,
) -> Figures:
    """Writes the tables and report.html into `output`, replacing an earlier report.

    since_ms, until_ms: the range, by the append time of events and firings; None: unlimited. now_ms: the
    present, for ages and the page's head. PipelineError without an archive; ReportError, before any work, if
    a package for the page is not installed.
    """
    check_can_draw()
    files = Files(spark, output)
    sources = Sources(
        events=read(spark, archive, ("event",), since_ms, until_ms),
        actions=read(spark, archive, ("action",), since_ms),
        subscriptions=read(spark, archive, ("subscription",)),
    )
    figures = make(spark, sources, files.root, since_ms, until_ms)
    files.write(PAGE, render(figures, archive, now_ms))
    log.info("report: %s", files.path(PAGE))
    return figures
