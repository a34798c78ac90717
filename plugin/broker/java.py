"""Finds a Java that can run Kafka."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from .errors import BrokerError

MIN_VERSION = 17  # Kafka 4's broker is compiled for it
_INSTALL = "Install Java 17 (Debian and Ubuntu: apt install openjdk-17-jre-headless) or set JAVA_HOME to one."


def find_java() -> str:
    """Returns the path of a `java` of version 17 or newer: JAVA_HOME's if that is set, else PATH's.

    Raises BrokerError, which names what was found, when there is none.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if java is None:
        raise BrokerError(
            f"JAVA_HOME is {home!r} and has no bin/java. {_INSTALL}"
            if home
            else f"No java found on PATH. {_INSTALL}"
        )
    text = version_of(java)
    number = re.match(r"(?:1\.)?(\d+)", text)  # 17.0.15, 25-ea, and up to Java 8: 1.8.0_292
    if number is None:
        raise BrokerError(f"{java} -version prints no version: {text!r}. {_INSTALL}")
    version = int(number[1])
    if version < MIN_VERSION:
        raise BrokerError(f"{java} is Java {version}; the broker needs {MIN_VERSION} or newer. {_INSTALL}")
    return java


def version_of(java: str) -> str:
    """Returns the version that a `java` prints: 17.0.15. Raises BrokerError if it fails or prints none."""
    try:
        ran = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise BrokerError(f"{java} cannot be run: {e}. {_INSTALL}") from e
    found = re.search(r'version "(\d[^"]*)"', ran.stderr + ran.stdout)
    if found is None:
        raise BrokerError(f"{java} -version prints no version: {ran.stderr.strip()[:200]!r}. {_INSTALL}")
    return found[1]
