"""The backtest: every firing that a condition would have made over what is on a bus (docs/pipeline.md)."""

from __future__ import annotations
