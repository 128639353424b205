"""The session's own safety: who may talk to a driver; and what it prints."""

import logging
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from lockstep import spark
from lockstep.jars import own_jar
from lockstep.jars.errors import JarsIncompleteError
from lockstep.settings import Settings
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENDPOINT = "HeartbeatReceiver"
"""Every driver has it, for its executors."""


def endpoint_of(spark: "SparkSession", **settings: str) -> str:
    """The driver's endpoint as a process with these settings of Spark finds it at the port."""
    jvm, driver = spark._jvm, spark.sparkContext._conf
    conf = jvm.org.apache.spark.SparkConf(False)
    for name, value in {"spark.rpc.askTimeout": "10s", **settings}.items():
        conf.set(name.replace("_", "."), value)
    none = jvm.scala.Option.empty()
    names = getattr(jvm, "org.apache.spark.internal.config.package$")
    constants = getattr(names, "MODULE$")
    security = jvm.org.apache.spark.SecurityManager(conf, none, constants.AUTH_SECRET_FILE())
    other = jvm.org.apache.spark.rpc.RpcEnv.create("stranger", "127.0.0.1", 0, conf, security, True)
    try:
        host, port = driver.get("spark.driver.host"), int(driver.get("spark.driver.port"))
        address = jvm.org.apache.spark.rpc.RpcAddress(host, port)
        return other.setupEndpointRef(address, ENDPOINT).toString()
    finally:
        other.shutdown()


@pytest.mark.parametrize(("master", "handed"), [("local[2]", 1), ("spark://127.0.0.1:7077", 2)])
def test_executors_of_a_cluster_are_handed_our_own_classes_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, master: str, handed: int
) -> None:
    """A local driver has them on its class path."""
    monkeypatch.setattr(spark, "classpath", lambda *_: [Path("delta.jar")])
    settings = Settings(home=tmp_path, jars_dir=tmp_path, spark_master=master)
    with pytest.raises(JarsIncompleteError, match="make setup"):
        spark.stream_session(settings, "a driver")
    own_jar(settings).parent.mkdir()
    own_jar(settings).touch()
    assert spark._jars(settings).split(",") == ["delta.jar", str(own_jar(settings))][:handed]


def test_a_jvm_is_alive_until_its_process_is_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        gateway = SimpleNamespace(_gateway=SimpleNamespace(proc=process))
        session = SimpleNamespace(sparkContext=gateway)
        assert spark.is_alive(session)
        process.stdin.close()
        assert not spark.is_alive(session, wait_seconds=60.0)
        assert not spark.is_alive(session)


@pytest.mark.spark
def test_a_driver_answers_no_process_that_does_not_know_its_secret(spark: "SparkSession") -> None:
    with pytest.raises(Py4JJavaError):
        endpoint_of(spark)


@pytest.mark.spark
def test_a_process_that_knows_the_secret_is_answered(spark: "SparkSession") -> None:
    """So the refusal has no other reason. What runs in the driver's own JVM knows the secret."""
    assert ENDPOINT in endpoint_of(spark, spark_authenticate="true")


@pytest.mark.spark
def test_an_error_about_a_query_is_raised_and_not_logged_before(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[logging.LogRecord] = []
    monkeypatch.setattr(logging.Logger, "callHandlers", lambda _, record: logged.append(record))
    with pytest.raises(AnalysisException, match="EPOCH"):
        spark.sql("SELECT EXTRACT(EPOCH FROM DATE '2026-11-27')")
    assert [record for record in logged if record.levelno >= logging.ERROR] == []
