"""Types of the events that Interlock itself emits. A type is a promise: it is never renamed."""

from __future__ import annotations

from typing import Final

SPARK_APPLICATION_SUCCEEDED: Final = "interlock.spark.application.succeeded"
SPARK_APPLICATION_FAILED: Final = "interlock.spark.application.failed"
