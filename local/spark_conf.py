"""Spark's configuration for jobs of a thousand rows; its defaults for large jobs would make them slow."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    # Generating and compiling code takes longer than interpreting a thousand rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
_LOG4J = """rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
logger.interlock.name = org.apache.hadoop.util.NativeCodeLoader
logger.interlock.level = error
"""
# Optimising compilation pays off after minutes, and these JVMs run for seconds.
_SHORT_LIVED_JVM = "-XX:TieredStopAtLevel=1"
_COLLECTOR = "-XX:+UseSerialGC"


def jvm_options() -> str:
    """Returns JDK_JAVA_OPTIONS for short-lived JVMs: its present value (a proxy, a trust store) and more."""
    own = os.environ.get("JDK_JAVA_OPTIONS", "")
    # A JVM does not start if its options name two collectors.
    wanted = [_SHORT_LIVED_JVM] if collectors() else [_SHORT_LIVED_JVM, _COLLECTOR]
    return " ".join([*own.split(), *(option for option in wanted if option not in own)])


def collectors() -> list[str]:
    """Returns the options that choose a garbage collector in the two variables that each JVM reads."""
    given = (os.environ.get(name, "") for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"))
    return [option for each in given for option in re.findall(r"-XX:\+Use\w+GC", each)]


def write(folder: Path) -> dict[str, str]:
    """Writes Spark's logging configuration. Returns the environment with which Spark uses it and DEFAULTS.

    Spark then binds to 127.0.0.1. The settings are options of the driver's JVM, after those of the caller's
    SPARK_SUBMIT_OPTS: a configuration folder would be on the class path, and the JVM would then use no
    archive of classes.
    """
    folder.mkdir(parents=True)
    log4j = folder / "log4j2.properties"
    log4j.write_text(_LOG4J)
    pyspark = find_spec("pyspark")
    home = str(Path(pyspark.origin).parent) if pyspark and pyspark.origin else ""
    options = " ".join(f"-D{name}={value}" for name, value in DEFAULTS.items())
    own = os.environ.get("SPARK_SUBMIT_OPTS", "")
    return {
        # PySpark does not find it if the path contains a space.
        "SPARK_HOME": home,
        "JDK_JAVA_OPTIONS": jvm_options(),
        "SPARK_SUBMIT_OPTS": f"{own} {options} -Dlog4j2.configurationFile={log4j.as_uri()}".strip(),
        "SPARK_CONF_DIR": "",  # not the caller's
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
