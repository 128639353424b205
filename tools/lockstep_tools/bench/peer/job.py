"""The Flink job of each sink, as configuration and statements. Nothing here runs.

The job does what stream mode `outbox` does: it reads the change topic from its start, keeps the
outbox's rows, and writes them once each. Its statements hold passwords, so that they go into a
private file.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from lockstep.accounts import KafkaUser
from lockstep.kafka_login import java_client
from lockstep.settings import Settings
from pizzeria.names import CHANGE_TOPIC

CHECKPOINT_MS = 100
"""What exactly-once sinks wait for: shorter ones cost Flink more time than they save."""
PARALLELISM = 2
"""As many as the two cores that Lockstep's own session runs on."""
READER_GROUP = "lockstep"
"""A group that the reader of the change topic may name; nothing is committed under it."""
TRANSACTION_MS_MAX = 60_000
"""Below the broker's own limit of 15 minutes, which the connector's default exceeds."""
SHADED = "org.apache.flink.kafka.shaded."
"""The prefix of Kafka's classes in Flink's connector."""
_SELECT = Path(__file__).with_name("sql") / "select_outbox.sql"
_CHANGES = {
    "op": "STRING",
    "ts_us": "BIGINT",
    "source": "ROW<`table` STRING, lsn BIGINT, ts_us BIGINT>",
    "after": "ROW<order_id BIGINT, op STRING, payload STRING>",
}
_ROWS = {
    "order_id": "BIGINT",
    "op": "STRING",
    "order_time": "STRING",
    "client_name": "STRING",
    "table_name": "STRING",
    "pizzas": "STRING",
    "commit_lsn": "BIGINT",
    "committed_us": "BIGINT",
    "captured_us": "BIGINT",
}
"""What SELECT gives; the pizzas stay text, since Flink has no function that parses them to rows."""


class Sink(StrEnum):
    """Where Flink writes to."""

    PAIMON = "paimon"
    KAFKA = "kafka"


@dataclass(frozen=True)
class FlinkJob:
    """What flink_job.py runs; the last statement is the job. name: of its log and its folder."""

    name: str
    configuration: Mapping[str, str]
    statements: Sequence[str]

    def text(self) -> str:
        """As flink_job.py reads it. It holds passwords."""
        return json.dumps(
            {"configuration": dict(self.configuration), "statements": list(self.statements)}
        )


def paimon_table(warehouse: Path, name: str) -> Path:
    """The folder of a table of Paimon's default database."""
    return warehouse / "default.db" / name


def paimon_job(settings: Settings, configuration: Mapping[str, str], table: Path) -> FlinkJob:
    """To a new Paimon table without keys, whose snapshots are all kept until the run is over."""
    warehouse, name = table.parent.parent, f"paimon.`default`.{_identifier(table.name)}"
    catalog = _options({"type": "paimon", "warehouse": warehouse.as_uri()})
    options = {"bucket": "-1", "snapshot.time-retained": "24 h"}
    made = f"CREATE CATALOG paimon WITH ({catalog})", create_table(name, _ROWS, options)
    return FlinkJob(table.name, configuration, [_source(settings), *made, _insert(name)])


def kafka_job(settings: Settings, configuration: Mapping[str, str], topic: str) -> FlinkJob:
    """To a topic, each checkpoint in a transaction of Kafka's."""
    options = {
        "connector": "kafka",
        "topic": topic,
        "format": "json",
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": topic,
        "properties.transaction.timeout.ms": str(TRANSACTION_MS_MAX),
        **_login(settings, KafkaUser.ADMIN),
    }
    made = create_table("written", _ROWS, options)
    return FlinkJob(topic, configuration, [_source(settings), made, _insert("written")])


def configuration(folder: Path, jars: Sequence[Path], rest_port: int) -> dict[str, str]:
    """Of a MiniCluster: exactly once, ports on loopback only, and a job that fails ends."""
    loopback = ("jobmanager.bind-host", "taskmanager.bind-host", "rest.bind-address")
    addresses = ("jobmanager.rpc.address", "taskmanager.host", "rest.address")
    return {
        **dict.fromkeys((*loopback, *addresses), "127.0.0.1"),
        "rest.port": str(rest_port),
        "rest.bind-port": str(rest_port),
        "web.refresh-interval": "50",  # so late a job that runs is seen to run
        "io.tmp.dirs": str(folder / "temporary"),
        "blob.storage.directory": str(folder / "temporary"),
        "parallelism.default": str(PARALLELISM),
        "pipeline.jars": ";".join(jar.as_uri() for jar in jars),
        "execution.checkpointing.mode": "EXACTLY_ONCE",
        "execution.checkpointing.interval": f"{CHECKPOINT_MS} ms",
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.dir": (folder / "checkpoints").as_uri(),
        "restart-strategy.type": "none",
        "table.local-time-zone": "UTC",
    }


def create_table(name: str, columns: Mapping[str, str], options: Mapping[str, str]) -> str:
    """The statement. name: quoted already where that is needed."""
    listed = ", ".join(f"{_identifier(column)} {kind}" for column, kind in columns.items())
    return f"CREATE TABLE {name} ({listed}) WITH ({_options(options)})"


def _source(settings: Settings) -> str:
    options = {
        "connector": "kafka",
        "topic": CHANGE_TOPIC,
        "scan.startup.mode": "earliest-offset",
        "properties.isolation.level": "read_committed",
        "properties.group.id": READER_GROUP,
        "properties.commit.offsets.on.checkpoint": "false",
        "format": "json",
        "json.ignore-parse-errors": "true",  # the topic has records of other shapes, too
        **_login(settings, KafkaUser.READER),
    }
    return create_table("changes", _CHANGES, options)


def _insert(table: str) -> str:
    return f"INSERT INTO {table}\n{_SELECT.read_text(encoding='utf-8')}"


def _login(settings: Settings, user: KafkaUser) -> dict[str, str]:
    login = java_client(settings, user)
    login["sasl.jaas.config"] = SHADED + login["sasl.jaas.config"]
    return {f"properties.{name}": value for name, value in login.items()}


def _options(options: Mapping[str, str]) -> str:
    return ", ".join(f"{_text(name)} = {_text(value)}" for name, value in options.items())


def _text(value: str) -> str:
    escaped = value.replace("'", "''")
    return f"'{escaped}'"


def _identifier(name: str) -> str:
    escaped = name.replace("`", "``")
    return f"`{escaped}`"
