"""The Spark session and its configuration, the same from the command line and from Airflow.

`spark_conf` never imports pyspark, so that DAG files can call it. Only the settings that the
platform's correctness or measured speed rests on are here, each with its reason.
"""

import os
import sys
from typing import TYPE_CHECKING

from lockstep.jars import classpath
from lockstep.settings import PROJECT_DIR, Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # One meaning of a timestamp everywhere: order_time, windows and dates are UTC.
    "spark.sql.session.timeZone": "UTC",
    # Delta replays a table's log in this many tasks; its default of 50 costs seconds a commit.
    "spark.databricks.delta.snapshotPartitions": "1",
    # A quiet hour is a commit too: it carries the cut, and tells it from an hour that never ran.
    "spark.databricks.delta.skipRecordingEmptyCommits": "false",
    # The progress bar garbles task logs.
    "spark.ui.showConsoleProgress": "false",
}
LOG_CONFIGURATION = PROJECT_DIR / "include" / "spark" / "log4j2.properties"
THROUGHPUT_COLLECTOR = "-XX:+UseParallelGC"
"""A run is over in seconds and minds no pause: a tenth less time than with the default, G1."""
_LOCAL_CONF = {
    # The driver listens on loopback only, and serves no web page.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    # As many as the two cores: an hour's orders are a few megabytes.
    "spark.sql.shuffle.partitions": "2",
    # Planning again between stages costs an hour's run a tenth of its time, and finds nothing.
    "spark.sql.adaptive.enabled": "false",
}


def spark_conf(settings: Settings) -> dict[str, str]:
    """Spark properties for spark-submit's --conf and for a session built in this process."""
    local = _LOCAL_CONF if settings.spark_master.startswith("local") else {}
    java_options = f"-Dlog4j2.configurationFile={LOG_CONFIGURATION.as_uri()} {THROUGHPUT_COLLECTOR}"
    return {
        **_CONF,
        **local,
        # Nothing is kept there; without a setting Spark makes a folder wherever it is started.
        "spark.sql.warehouse.dir": str(settings.home / "spark-warehouse"),
        "spark.driver.memory": settings.spark_driver_memory,
        "spark.driver.extraJavaOptions": java_options,
    }


def spark_session(settings: Settings, app_name: str) -> "SparkSession":
    """The process's Spark session, started on first use.

    Under spark-submit the JVM runs already, with the jars and properties it was given; from the
    command line it is started here with the same. Raises JarsIncompleteError.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        jars = ",".join(str(jar) for jar in classpath(settings, "spark"))
        builder = builder.master(settings.spark_master).config("spark.jars", jars)
    for key, value in spark_conf(settings).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
