"""The error of the development broker."""

from __future__ import annotations

from ...events.errors import InterlockError


class BrokerError(InterlockError):
    """The development broker cannot be fetched or started, or it ended; the text says why and what to do.

    Nothing is left running when this is raised.
    """
