"""The backtest at scale: compares its result and speed with a plain loop of `step`."""

from __future__ import annotations
