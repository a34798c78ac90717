"""The Spark of this environment, found without an import, which takes a second."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_CORE: Final = re.compile(r"spark-core_(?P<scala>[\d.]+)-(?P<spark>\d.*)\.jar")
_VERSION: Final = re.compile(r"""^__version__\b[^=]*=\s*["']([^"']+)["']""", re.MULTILINE)
_MEND: Final = "pip uninstall -y {} && pip install 'airflow-interlock[spark]'"


@dataclass(frozen=True)
class Jars:
    """The versions of Spark and Scala in the names of Spark's jars."""

    spark: str
    scala: str


def jars() -> Jars | None:
    """Returns the versions of the Spark that spark-submit starts: that of SPARK_HOME, else of PySpark.

    None if neither has jars, as with pyspark-client alone.
    """
    home = os.environ.get("SPARK_HOME")
    folder = Path(home) if home else _folder()
    found = [] if folder is None else _jars(folder)
    return found[0] if found else None


def conflict() -> str | None:
    """Returns what is wrong with the installed PySpark, and what to do; None if nothing is.

    pyspark and pyspark-client, among others, install files into one folder. With different versions each has
    overwritten files of the other. Nothing warns: `pip check` accepts it, and jobs fail later with errors
    that do not name it.
    """
    folder = _folder()
    if folder is None:
        return None
    owners = sorted({(_name(each), each.version) for each in distributions() if _installs(each, folder)})
    names = {name for name, _ in owners}
    versions = {version for _, version in owners}
    parts = [f"{name} {version}" for name, version in owners]
    if any(name.startswith("pyspark") for name in names):  # the others have version numbers of their own
        contents = [("code", version) for version in _code(folder)]
        contents += [("jars", each.spark) for each in _jars(folder)]
        parts += [f"{what} of {version}" for what, version in contents]
        versions |= {version for _, version in contents}
    if len(versions) < 2:
        return None
    mend = _MEND.format(" ".join(sorted(names)))
    return f"{folder} mixes versions of PySpark: {', '.join(parts)}. Spark jobs fail with it. Run: {mend}"


def _folder() -> Path | None:
    try:
        spec = find_spec("pyspark")
    except (ImportError, ValueError):  # then nobody can import it either
        return None
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]).resolve() if places else None


def _name(distribution: Distribution) -> str:
    return re.sub(r"[-_.]+", "-", distribution.name or "").lower()


def _installs(distribution: Distribution, folder: Path) -> bool:
    """Returns whether this distribution has installed files into the folder."""
    if Path(str(distribution.locate_file(folder.name))).resolve() != folder:
        return False
    if (listed := distribution.read_text("top_level.txt")) is not None:
        return folder.name in listed.split()
    return any(file.parts[0] == folder.name for file in distribution.files or ())


def _code(folder: Path) -> list[str]:
    try:
        return _VERSION.findall((folder / "version.py").read_text(encoding="utf-8"))
    except OSError:
        return []


def _jars(folder: Path) -> list[Jars]:
    found = (_CORE.fullmatch(path.name) for path in sorted(folder.glob("jars/spark-core_*.jar")))
    return [Jars(each["spark"], each["scala"]) for each in found if each]
