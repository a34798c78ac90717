"""Reads DAG files in tests as Airflow reads them."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..events.plain_text import takes_plain_text
from ..triggers.argument_checks import ArgumentChecks

if TYPE_CHECKING:
    from airflow.sdk import DAG


@takes_plain_text
def dags_in(path: str | Path, *, safe_mode: bool = True) -> dict[str, DAG]:
    """Returns {dag_id: DAG} of a DAG file, or of a folder and its subfolders. Uses no database or connection.

    safe_mode: as by default in Airflow, skips files without the words "dag" and "airflow".
    Raises AssertionError with the files that cannot be imported and their errors.
    """
    checks = ArgumentChecks("dags_in()")
    given = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not given or not os.path.exists(given):  # noqa: PTH110  # Path's raises for names that are too long
        checks.fail("path", path if given is None else given, "a DAG file or folder that exists")
    checks.flag("safe_mode", safe_mode)
    from airflow.dag_processing.dagbag import DagBag

    path = Path(path)
    with _importable(path if path.is_dir() else path.parent), warnings.catch_warnings():
        # Airflow itself uses a deprecated class to read .airflowignore.
        warnings.filterwarnings("ignore", "GitWildMatchPattern", DeprecationWarning)
        bag = DagBag(str(path), safe_mode=safe_mode, load_op_links=False)
    if bag.import_errors:
        errors = sorted(bag.import_errors.items())
        raise AssertionError("\n".join(f"{name}: {_without_traceback(error)}" for name, error in errors))
    return dict(bag.dags)


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Lets DAG files import modules in their folder, as from Airflow's DAGs folder."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _without_traceback(error: str) -> str:
    return re.split(r"\n(?=\S)", error.strip())[-1]
