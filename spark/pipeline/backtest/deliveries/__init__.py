"""What would be delivered: the requests that a sink would have got for the firings of a backtest."""

from __future__ import annotations
