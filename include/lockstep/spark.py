"""The Spark session and its configuration, the same from the command line and from Airflow.

`spark_conf` never imports pyspark, so that DAG files can call it. Only the settings that the
platform's correctness or measured speed rests on are here, each with its reason.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.jars import classpath, own_jar
from lockstep.jars.errors import JarsIncompleteError
from lockstep.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # One meaning of a timestamp everywhere: times, windows and dates are UTC.
    "spark.sql.session.timeZone": "UTC",
    # Delta replays a table's log in this many tasks; its default of 50 costs seconds a commit.
    "spark.databricks.delta.snapshotPartitions": "1",
    # A quiet hour is a commit too: it carries the cut, and distinguishes it from an hour that never
    # ran.
    "spark.databricks.delta.skipRecordingEmptyCommits": "false",
    # A query's text and a column's name are what they are, ${…} included.
    "spark.sql.variable.substitute": "false",
    # The progress bar garbles task logs.
    "spark.ui.showConsoleProgress": "false",
}
LOG_CONFIGURATION = Path(__file__).with_name("log4j2.properties")
THROUGHPUT_COLLECTOR = "-XX:+UseParallelGC"
"""A run is over in seconds and minds no pause: a tenth less time than with the default, G1."""
FEW_ROWS = 50_000
"""A job over so many rows is over before what is compiled for it has paid off."""
_OF_FEW_ROWS_JVM = "-XX:TieredStopAtLevel=1"
_OF_FEW_ROWS_CONF = {
    # Expressions are interpreted: a cold comparison of an hour in five modes takes half of the
    # processor's time (docs/decisions/parity.md).
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_LOCAL_CONF = {
    # The driver listens on loopback only, and serves no web page.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    # Its ports take messages, Java objects among them, from those who know a secret: Spark makes
    # one for each driver and keeps it in memory.
    "spark.authenticate": "true",
    # As many as the two cores: an hour's orders are a few megabytes.
    "spark.sql.shuffle.partitions": "2",
    # Planning again between stages costs an hour's run a tenth of its time, and finds nothing.
    "spark.sql.adaptive.enabled": "false",
}


def spark_conf(settings: Settings, rows: int | None = None) -> dict[str, str]:
    """Spark properties for spark-submit's --conf and for a session built in this process.

    rows: how many the job is over, nearly; None where that is not known.
    """
    local: dict[str, str] = {}
    if _is_local(settings):
        # The same for all drivers: an archive is used by JVMs that have its class path.
        local = {**_LOCAL_CONF, "spark.driver.extraClassPath": str(own_jar(settings))}
    jvm, of_few_rows = THROUGHPUT_COLLECTOR, {}
    if rows is not None and rows <= FEW_ROWS:
        jvm, of_few_rows = f"{jvm} {_OF_FEW_ROWS_JVM}", _OF_FEW_ROWS_CONF
    return {
        **_CONF,
        **local,
        **of_few_rows,
        # Nothing is kept there; without a setting Spark makes a folder wherever it is started.
        "spark.sql.warehouse.dir": str(settings.home / "spark-warehouse"),
        "spark.driver.memory": settings.spark_driver_memory,
        "spark.driver.extraJavaOptions": _java_options(settings, jvm),
    }


_STREAM_CONF = {
    # The join of a few rows is one task; whole-stage code would be compiled for nothing.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    # But for the plans that are kept (enrich/few_rows.py), whose code so stays as well: some ten
    # entries each.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # Spark multiplies the sizes of joined tables, takes a few orders for gigabytes and would join
    # them in five stages: 20 orders in 0.26 s instead of 0.22 s, 15,000 in 1.3 s instead of 1.0 s.
    "spark.sql.maxSinglePartitionBytes": f"{2**62}b",
    "spark.sql.streaming.numRecentProgressUpdates": "5",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
_LOCAL_FILES_CONF = {
    # Two or three small files a micro-batch, and Hadoop's own local file system runs chmod twice
    # for each: 140 ms of a micro-batch of 550 with a state store.
    "spark.hadoop.fs.file.impl": "lockstep.UnforkedLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
_STREAM_JVM = (
    "-XX:+UseSerialGC -XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=40 -XX:-ShrinkHeapInSteps "
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
)
"""A collection leaves 20 to 40 % of the heap free; Java's own figures are 40 and 70 %.

Tiny plans, each new: the second compiler costs more than it gives (join 0.56 s to 0.23 s). With one
compiler Java reserves 48 MB for code. Spark fills them in a minute; then half of the code is thrown
away, and everything takes four times as long until it is compiled again.
"""


def class_archive(settings: Settings) -> "Path":
    """Spark's classes as a JVM keeps them once they are loaded (streams/class_archive.py)."""
    return own_jar(settings).with_suffix(".jsa")


def _java_options(settings: Settings, jvm: str, archive_to: "Path | None" = None) -> str:
    """jvm: the driver's own options. An archive that does not fit is left out by Java itself.

    A missing one by us: for it Java would do without the archive of its own classes, too.
    """
    options = [f"-Dlog4j2.configurationFile={LOG_CONFIGURATION.as_uri()}", jvm]
    if archive_to is not None:
        options.append(f'"-XX:ArchiveClassesAtExit={archive_to}"')
    elif _is_local(settings) and class_archive(settings).exists():
        options.append(f'"-XX:SharedArchiveFile={class_archive(settings)}"')
    return " ".join(options)


@contextmanager
def stopped_session(
    settings: Settings, app_name: str, rows: int | None = None
) -> "Iterator[SparkSession]":
    """spark_session, until the block ends, however it does."""
    spark = spark_session(settings, app_name, rows)
    try:
        yield spark
    finally:
        spark.stop()


def stream_session(
    settings: Settings,
    app_name: str,
    inherited: Sequence[int] = (),
    archive_to: "Path | None" = None,
) -> "SparkSession":
    """The session of a streams' driver, whose JVM keeps the given file descriptors open.

    A descriptor that holds an OS lock so ends with the last process, Python's or the JVM.
    archive_to: where the JVM writes its classes as it ends. Raises JarsIncompleteError.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    conf = SparkConf()
    conf.setAppName(app_name).setMaster(settings.spark_master)
    if not own_jar(settings).exists():
        raise JarsIncompleteError(f"{own_jar(settings)} is missing; run `make setup`")
    conf.set("spark.jars", _jars(settings))
    values = {**spark_conf(settings), **_STREAM_CONF}
    if _is_local(settings):
        values |= _LOCAL_FILES_CONF
    values["spark.driver.extraJavaOptions"] = _java_options(settings, _STREAM_JVM, archive_to)
    for key, value in values.items():
        conf.set(key, value)
    _say_errors_once()
    gateway = launch_gateway(conf, {"pass_fds": tuple(inherited)})
    context = SparkContext(conf=conf, gateway=gateway)
    return SparkSession(context)


def spark_session(settings: Settings, app_name: str, rows: int | None = None) -> "SparkSession":
    """The process's Spark session, started on first use. rows: as of spark_conf.

    Under spark-submit the JVM runs already, with the jars and properties it was given; from the
    command line it is started here with the same. Raises JarsIncompleteError.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    _say_errors_once()
    builder = SparkSession.builder.appName(app_name)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        builder = builder.master(settings.spark_master).config("spark.jars", _jars(settings))
    for key, value in spark_conf(settings, rows).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _jars(settings: Settings) -> str:
    """What Spark hands to its executors; a local driver has our own on its class path.

    Raises JarsIncompleteError.
    """
    jars, own = classpath(settings, "spark"), own_jar(settings)
    if not _is_local(settings) and own.exists():
        jars.append(own)
    return ",".join(map(str, jars))


def _say_errors_once() -> None:
    """pyspark logs each error about a query as JSON, with its stack, before it raises it."""
    from pyspark.logger import PySparkLogger

    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def is_alive(spark: "SparkSession", wait_seconds: float = 0.0) -> bool:
    """Whether the JVM of a stream_session is there; does not ask it anything.

    wait_seconds: how long its end is waited for. Its connections break before its process is gone.
    """
    try:
        spark.sparkContext._gateway.proc.wait(wait_seconds)
    except subprocess.TimeoutExpired:
        return True
    return False


def _is_local(settings: Settings) -> bool:
    """Whether the tasks run in the driver's own process, with its files and its class path."""
    return settings.spark_master.startswith("local")
