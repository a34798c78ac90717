"""The backtest at scale: is it equal to a plain loop of `step`, and how fast is it beside that."""

from __future__ import annotations
