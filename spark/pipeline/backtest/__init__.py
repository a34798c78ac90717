"""The backtest: the firings that a condition would have made for past events (docs/use/pipeline.md)."""

from __future__ import annotations
