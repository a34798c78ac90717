"""Integration tests: with the real broker of the session (tests/conftest.py)."""

from __future__ import annotations

import logging

# It logs the end of its connections after pytest has closed its log.
logging.getLogger("py4j").setLevel(logging.WARNING)
