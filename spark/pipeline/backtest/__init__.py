"""The backtest: every firing a condition would have made over what is on a bus (docs/use/pipeline.md)."""

from __future__ import annotations
