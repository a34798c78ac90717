"""The Airflows of the tests: each with a home of its own, on copies of one migrated database."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# By version: `make test-airflow-oldest` runs in the same checkout.
MIGRATED = ROOT / ".build" / f"airflow-{version('apache-airflow-core')}.db"
