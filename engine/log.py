"""The engine's log, which Airflow shows with the triggerer's."""

from __future__ import annotations

import logging

log = logging.getLogger("interlock.engine")
