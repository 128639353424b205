"""The JVM parts: what they must be (the lock), and where Spark, Kafka and Connect find them.

Cheap to import and to call, for Airflow's DAG files do both whenever they are parsed. Downloading
is in ``ivy`` and ``install`` (`make setup`); neither is ever imported from here, nor is pyspark.
"""

from pathlib import Path

from lockstep.jars.errors import JarsIncompleteError
from lockstep.jars.lock import LOCK_FILE, PARTS, LockedJar, read_lock
from lockstep.settings import Settings

__all__ = ["LOCK_FILE", "PARTS", "LockedJar", "classpath", "own_jar", "read_lock"]


def classpath(settings: Settings, part: str, lock_file: Path = LOCK_FILE) -> list[Path]:
    """The locked jars of a part (spark, kafka or connect), absolute, in the lock's order.

    Raises JarsIncompleteError naming each file that is missing or has not its locked size; their
    contents were verified by `make setup`.
    """
    if part not in PARTS:
        raise ValueError(f"no part {part!r} of the JVM parts; there are {', '.join(PARTS)}")
    jars = [jar for jar in read_lock(lock_file) if jar.part == part]
    problems = [problem for jar in jars if (problem := jar.problem_below(settings.jars_dir))]
    if problems:
        raise JarsIncompleteError(
            f"{len(problems)} of {len(jars)} {part} jars in {settings.jars_dir} cannot be used: "
            f"{_shortened(problems)}; run `make setup`"
        )
    return [settings.jars_dir / jar.path for jar in jars]


def own_jar(settings: Settings) -> Path:
    """Where `make setup` puts our classes for Spark's drivers (streams/java)."""
    return settings.jars_dir / "own" / "spark.jar"


def _shortened(problems: list[str], shown: int = 5) -> str:
    rest = len(problems) - shown
    return ", ".join(problems[:shown]) + (f" and {rest} more" if rest > 0 else "")
