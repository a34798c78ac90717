"""The report of a bus: latencies of firings and resumptions, expired waits, event types nobody waits for.

Reads only the archive (`spark.pipeline.archive`). Writes tables as Parquet, and one HTML page.
"""

from __future__ import annotations

from .. import PipelineError


class ReportError(PipelineError):
    """The report cannot be made; the message says what to do."""
