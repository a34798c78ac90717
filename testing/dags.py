"""DAG files for tests, read as Airflow reads them."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import DAG


def dags_in(path: str | Path, *, safe_mode: bool = True) -> dict[str, DAG]:
    """{dag_id: DAG} of a DAG file, or of a folder with all below it. No database, no connection is used.

    AssertionError names the files that cannot be imported, each with its error. safe_mode: as Airflow's
    default, files without the words "dag" and "airflow" are not looked at.
    """
    from airflow.dag_processing.dagbag import DagBag

    path = Path(path)
    with _importable(path if path.is_dir() else path.parent), warnings.catch_warnings():
        # Airflow reads .airflowignore by a class that is deprecated, which no author of DAGs can mend.
        warnings.filterwarnings("ignore", "GitWildMatchPattern", DeprecationWarning)
        bag = DagBag(str(path), safe_mode=safe_mode, load_op_links=False)
    if bag.import_errors:
        errors = sorted(bag.import_errors.items())
        raise AssertionError("\n".join(f"{name}: {_without_traceback(error)}" for name, error in errors))
    return dict(bag.dags)


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Modules beside the DAG files can be imported by them, as from Airflow's DAGs folder."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _without_traceback(error: str) -> str:
    return re.split(r"\n(?=\S)", error.strip())[-1]
