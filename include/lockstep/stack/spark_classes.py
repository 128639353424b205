"""Our own classes for Spark's drivers: include/spark/java."""

from pathlib import Path

from lockstep.settings import PROJECT_DIR, Settings
from lockstep.stack import java_classes

SOURCES = PROJECT_DIR / "include" / "spark" / "java"


def compiled(settings: Settings) -> Path:
    """The folder for the class path. Raises ServiceError with the compiler's words."""
    classpath = java_classes.spark_jars("hadoop-client-api")
    return java_classes.compiled(SOURCES, classpath, settings.home / "spark")
