"""The whole report: from an archive to the tables and the page."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from ..archive.files import Files
from ..archive.layout import read
from .figures import Figures
from .page import check_can_draw, render
from .tables import Sources, make

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

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
    """Write the tables and report.html below `output`, which replaces an earlier report there.

    since_ms, until_ms: of the range, by the append time of events and firings; None: without an end. now_ms:
    for ages, and for the page's head. PipelineError where there is no archive, ReportError where the page
    cannot be drawn, before any work.
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
