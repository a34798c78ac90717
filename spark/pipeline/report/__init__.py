"""The report of a bus: how late firings and resumptions are, what expired, what nobody waits for.

Read from the archive alone (`spark.pipeline.archive`); tables as Parquet, and one HTML page.
"""

from __future__ import annotations

from .. import PipelineError


class ReportError(PipelineError):
    """The report cannot be made as it was told to; the message says what to do."""
