"""Other users of the machine reach Kafka's and Connect's ports, and change nothing there."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from confluent_kafka import KafkaError, Producer
from lockstep.accounts import CONNECT_USER, KafkaUser
from lockstep.kafka_login import client
from lockstep.settings import Settings
from lockstep.sources import change_topic
from pizzeria import names as pizzeria
from pydantic import SecretStr

from tests.secret_scan import seen_in

pytestmark = pytest.mark.services

DELIVERY_MS_MAX = 4_000
REST_SECONDS_MAX = 30
STREAM_SECONDS_MAX = 240
STREAM = """
import sys
from lockstep.settings import Settings
from lockstep.sources import change_topic
from lockstep.spark import spark_session
from lockstep.streams.micro_batches import RECORDS_MAX

settings = Settings.load()
spark = spark_session(settings, "sign-in")
spark.sparkContext.setLogLevel("INFO")
records = change_topic.stream(spark, settings, first_offset=0, records_max=RECORDS_MAX)
query = (
    records.writeStream.option("checkpointLocation", sys.argv[1])
    .trigger(availableNow=True).format("noop").start()
)
query.awaitTermination()
records.explain(True)
query.explain(True)
print(query.lastProgress.json, spark.sparkContext.getConf().getAll())
"""
"""Reads the change topic once, as a stream, and says all that Spark says about it."""


def anonymous(settings: Settings) -> dict:
    return {"bootstrap.servers": settings.kafka_bootstrap}


def guesses(settings: Settings) -> dict:
    wrong = settings.model_copy(update={"kafka_password": SecretStr("wrong")})
    return client(wrong, KafkaUser.ADMIN)


def reader(settings: Settings) -> dict:
    return client(settings, KafkaUser.READER)


def forged(settings: Settings, login: dict) -> tuple[bytes, KafkaError | None]:
    """A record sent to the change topic, and why it was refused."""
    value, outcome = uuid4().hex.encode(), []
    quiet = {"log_level": 0, "message.timeout.ms": DELIVERY_MS_MAX}
    producer = Producer({**login, **quiet})
    producer.produce(
        pizzeria.CHANGE_TOPIC, value, on_delivery=lambda error, _: outcome.append(error)
    )
    producer.flush(2 * DELIVERY_MS_MAX / 1000)
    return value, outcome[0]


@pytest.mark.parametrize("login", [anonymous, guesses, reader])
def test_only_connect_writes_to_the_change_topic(
    change_capture: Settings, login: Callable[[Settings], dict]
) -> None:
    first = change_topic.end_offset(change_capture)
    value, refused = forged(change_capture, login(change_capture))
    assert refused is not None
    end = change_topic.end_offset(change_capture)
    written = [
        record for part in change_topic.read_again(change_capture, first, end) for record in part
    ]
    assert value not in [record for _, record in written]


@pytest.mark.parametrize("auth", [None, (CONNECT_USER, "wrong")])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("GET", "health"),
        ("GET", f"connectors/{pizzeria.CONNECTOR}/config"),
        ("PUT", f"connectors/{pizzeria.CONNECTOR}/pause"),
        ("POST", "connectors"),
    ],
)
def test_connect_answers_only_those_who_sign_in(
    change_capture: Settings, method: str, path: str, auth: tuple[str, str] | None
) -> None:
    url = f"{change_capture.connect_url}/{path}"
    answer = httpx.request(method, url, auth=auth, timeout=REST_SECONDS_MAX)
    assert answer.status_code == httpx.codes.UNAUTHORIZED


@pytest.mark.parametrize(("method", "path"), [("POST", "tasks"), ("PUT", "fence")])
def test_what_workers_ask_of_each_other_needs_a_signature(
    change_capture: Settings, method: str, path: str
) -> None:
    """These two the extension lets through: Connect itself looks for a key of its group's."""
    url = f"{change_capture.connect_url}/connectors/{pizzeria.CONNECTOR}/{path}"
    answer = httpx.request(method, url, json=[], timeout=REST_SECONDS_MAX)
    assert answer.is_client_error
    assert "signature" in answer.text


@pytest.mark.spark
def test_a_stream_that_signs_in_shows_its_password_nowhere(
    change_capture: Settings, tmp_path: Path
) -> None:
    """Neither in logs and plans, nor in Spark's event log and the query's checkpoint."""
    events = tmp_path / "events"
    events.mkdir()
    submit = f"--conf spark.eventLog.enabled=true --conf spark.eventLog.dir={events.as_uri()}"
    done = subprocess.run(
        [sys.executable, "-c", STREAM, str(tmp_path / "checkpoint")],
        env=os.environ | {"PYSPARK_SUBMIT_ARGS": f"{submit} pyspark-shell"},
        capture_output=True,
        timeout=STREAM_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert b"sasl.jaas.config = [hidden]" in done.stderr  # so the client's settings were logged
    files = {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert any("local-" in name for name in files), "no event log"
    seen = {"output": done.stdout, "log": done.stderr, **files}
    passwords = {"the reader's": change_capture.password(KafkaUser.READER).encode()}
    assert seen_in(passwords, seen) == []
