"""What drivers' JVMs start from: our classes as a jar, and an archive of all that they load.

Reading, checking and linking some 15,000 classes is most of what a driver does until its first
micro-batch. Java can keep them as they are afterwards (class data sharing, JEP 350), for JVMs with
the same class path. `make setup` lets a driver do everything once, without data, and its JVM
write the archive as it ends. Without an archive, or with one that no longer fits, a JVM starts as
it would anyway.
"""

import hashlib
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from lockstep.errors import LockstepError, ServiceError, exit_on_error
from lockstep.file_lock import FileLock
from lockstep.host.process import run_to_end
from lockstep.jars import classpath, own_jar
from lockstep.jvm import java_classes
from lockstep.jvm.java import java_says
from lockstep.pipeline.plan import plans_of
from lockstep.pipeline.project import read_project
from lockstep.settings import Settings
from lockstep.spark import class_archive, stream_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCES = Path(__file__).with_name("java")
LEARN_SECONDS_MAX = 300
LINES_IN_ERROR = 5
JAR_ALONE = "--jar"


def make(settings: Settings, on_progress: Callable[[str], None]) -> None:
    """Make jar and archive unless they fit what is installed; says what was done.

    Without an archive, for whatever reason, drivers start slower, and that is said. Raises
    ServiceError when our classes cannot be compiled, or another set-up takes too long, and
    LockstepError when the folder cannot be written.
    """
    jar = own_jar(settings)
    try:
        jar.parent.mkdir(parents=True, exist_ok=True)
        with FileLock.acquire(jar.with_suffix(".lock"), _busy, patience_seconds=LEARN_SECONDS_MAX):
            _make(settings, jar, on_progress)
    except OSError as error:
        raise LockstepError(f"{jar.parent} cannot be written: {error}") from error


def _busy(pid: int | None) -> ServiceError:
    return ServiceError(f"another set-up (pid {pid or 'unknown'}) does not end: end it, or wait")


def _make(settings: Settings, jar: Path, on_progress: Callable[[str], None]) -> None:
    stamp, wanted = jar.with_suffix(".made-from"), _made_from(settings)
    if stamp.exists() and jar.exists() and stamp.read_text(encoding="utf-8") == wanted:
        on_progress(_as_it_is(settings))
        return
    stamp.unlink(missing_ok=True)
    class_archive(settings).unlink(missing_ok=True)
    _compile(jar)
    on_progress("archiving what Spark's JVMs load, one to three minutes")
    try:
        _archive(settings)
        on_progress("archived")
    except ServiceError as error:  # not tried again: it would fail again
        on_progress(f"drivers start slower than they could: {error}")
    stamp.write_text(wanted, encoding="utf-8")


def _as_it_is(settings: Settings) -> str:
    archive = class_archive(settings)
    if archive.exists():
        return "archived"
    return f"could not be archived: drivers start slower; to try again delete {archive.parent}"


def _made_from(settings: Settings) -> str:
    """A digest of all that an archive depends on, the jars as Java itself compares them."""
    jars = [*classpath(settings, "spark"), *_spark_jars()]
    parts = [java_says().encode(), Path(__file__).read_bytes()]
    parts += [source.read_bytes() for source in _sources()]
    parts += [f"{jar} {jar.stat().st_size} {jar.stat().st_mtime_ns}".encode() for jar in jars]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _sources() -> list[Path]:
    return sorted(SOURCES.rglob("*.java"))


def _spark_jars() -> list[Path]:
    return sorted(java_classes.spark_jars("spark-core_2.13")[0].parent.glob("*.jar"))


def _compile(jar: Path) -> None:
    """A jar, for class data sharing knows no folders; drivers may be using the one of before."""
    with tempfile.TemporaryDirectory() as folder:
        classes = Path(folder)
        java_classes.compile_java(_sources(), classes, _spark_jars())
        partial = jar.with_suffix(".partial")
        with zipfile.ZipFile(partial, "w") as made:
            for file in sorted(classes.rglob("*.class")):
                made.write(file, file.relative_to(classes))
        partial.replace(jar)


def _archive(settings: Settings) -> None:
    """In a process of its own: its JVM writes the archive as it ends, and a lot of warnings."""
    path = class_archive(settings)
    partial = path.with_suffix(".partial")
    command = [sys.executable, "-m", __spec__.name, str(partial)]
    done = run_to_end(command, "archiving Spark's classes", LEARN_SECONDS_MAX)
    if done.returncode != 0 or not partial.exists():
        words = (done.stdout + done.stderr).splitlines()[-LINES_IN_ERROR:]
        raise ServiceError("Spark's classes cannot be archived: " + "; ".join(words))
    partial.rename(path)


def record_classes(settings: Settings, archive: Path) -> None:
    """Do what drivers do, once; the archive is written when this process ends."""
    with tempfile.TemporaryDirectory() as home:
        alone = Settings(
            home=Path(home), jars_dir=settings.jars_dir, lakehouse="", spark_master="local[2]"
        )
        spark = stream_session(alone, "lockstep setup", archive_to=archive)
        _do_what_drivers_do(spark, alone)
        spark.stop()


def _do_what_drivers_do(spark: "SparkSession", settings: Settings) -> None:
    """The project's queries, a Delta table, a stream through the state store."""
    from lockstep.streams.as_of_commit import Evaluation
    from lockstep.streams.open_transactions import whole_transactions

    project = read_project(settings.project)
    for source in project.sources:
        for plan in plans_of(project, source):
            Evaluation(spark, plan)
    table, checkpoint = str(settings.home / "table"), str(settings.home / "checkpoint")
    spark.range(10).write.format("delta").save(table)
    spark.read.format("delta").load(table).toArrow()
    rows = spark.readStream.format("delta").load(table)
    records = rows.selectExpr("id AS offset", "CAST(NULL AS BINARY) AS value")
    query = (
        whole_transactions(records)
        .writeStream.option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .foreachBatch(lambda goes_on, _: goes_on.toArrow())
        .start()
    )
    query.awaitTermination()


def main(arguments: list[str]) -> None:
    """`make setup`'s step; with --jar our classes alone, as for an image whose Spark is a cluster.

    With a path, the process in which the archive is made.
    """
    settings = Settings.load()
    if arguments == [JAR_ALONE]:
        jar = own_jar(settings)
        jar.parent.mkdir(parents=True, exist_ok=True)
        _compile(jar)
    elif arguments:
        record_classes(settings, Path(arguments[0]))
    else:
        console = Console(soft_wrap=True, highlight=False, markup=False)
        make(settings, lambda what: console.print(f"  classes   {what}"))


if __name__ == "__main__":
    with exit_on_error():
        main(sys.argv[1:])
