"""The archive: the records of a bus as Parquet files, each once (docs/use/pipeline.md, "The archive")."""

from __future__ import annotations

from .layout import read

__all__ = ["read"]
