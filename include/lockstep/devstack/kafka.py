"""Kafka: one node that is broker and controller (KRaft), on loopback, for those who sign in.

Here are its configuration, its users, its formatting and its probe; topics are made by who writes
to them. The controller's port asks for a password as the broker's does: a client could change
topics there, too.
"""

import base64
import signal
import uuid
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from lockstep.accounts import KafkaUser
from lockstep.capture.connectors import embedded_sources
from lockstep.capture.topic_rights import grant_reading
from lockstep.errors import ServiceError
from lockstep.host.data_folders import kafka_data
from lockstep.host.files import bounded_log, make_private_folder, write_private
from lockstep.host.ports import Port
from lockstep.host.process import Launch, run_to_end
from lockstep.jvm.java import java_command, java_environment, properties, write_jvm_files
from lockstep.kafka_login import PLAIN_LOGIN, PROTOCOL, client, login_module
from lockstep.pipeline.names import change_topic
from lockstep.pipeline.project import read_project
from lockstep.settings import Settings

HEAP_MB = 384
FORMAT_SECONDS_MAX = 60
METADATA_SECONDS_MAX = 1.0


class Kafka:
    """The broker as a service of the stack."""

    name = "kafka"
    needs: tuple[str, ...] = ()
    ready_seconds_max = 120.0  # after a crash the open segments of its logs are checked
    stop_signal = signal.SIGTERM
    stop_seconds_max = 30.0

    def address(self, settings: Settings) -> str:
        return settings.kafka_bootstrap

    def ports(self, settings: Settings) -> list[Port]:
        own = ("kafka_port", "kafka_controller_port")
        return [Port.of(settings, "kafka_host", port) for port in own]

    def launch(self, settings: Settings) -> Launch:
        configuration = write_configuration(settings)
        format_once(settings, configuration)
        return Launch(
            command=java_command(
                settings, "kafka", "kafka.Kafka", str(configuration), heap_mb=HEAP_MB
            ),
            log=bounded_log(settings.home, self.name),
            environment=java_environment(),
            working_folder=configuration.parent,
        )

    def problem(self, settings: Settings) -> str | None:
        admin = AdminClient({**client(settings, KafkaUser.ADMIN), "log_level": 0}, logger=None)
        try:
            brokers = admin.list_topics(timeout=METADATA_SECONDS_MAX).brokers
        except KafkaException as error:
            return error.args[0].str()
        return None if brokers else "no broker in its metadata"

    def trouble(self, settings: Settings) -> str | None:
        return None

    def finish(self, settings: Settings) -> None:
        for source in embedded_sources(settings, read_project(settings.project)):
            grant_reading(settings, change_topic(source.name))


def write_configuration(settings: Settings) -> Path:
    """The files that Kafka reads as it starts; returns that of its properties."""
    folder = make_private_folder(settings.home / "kafka")
    configuration = folder / "server.properties"
    write_private(configuration, properties(server_properties(settings)))
    write_jvm_files(folder, {"KafkaServer": _users(settings)})
    return configuration


def _users(settings: Settings) -> str:
    """As whom the node signs in to itself, and the password of each user."""
    known = {f"user_{user}": settings.password(user) for user in KafkaUser}
    own = {"username": KafkaUser.ADMIN, "password": settings.password(KafkaUser.ADMIN)}
    return login_module(PLAIN_LOGIN, {**own, **known})


def server_properties(settings: Settings) -> dict[str, object]:
    """The broker's configuration: one node, so one replica of everything."""
    broker = f"{settings.kafka_host}:{settings.kafka_port}"
    controller = f"{settings.kafka_host}:{settings.kafka_controller_port}"
    protocol, mechanism = PROTOCOL["security.protocol"], PROTOCOL["sasl.mechanism"]
    return {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{controller}",
        "listeners": f"BROKER://{broker},CONTROLLER://{controller}",
        "advertised.listeners": f"BROKER://{broker}",
        "inter.broker.listener.name": "BROKER",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": f"BROKER:{protocol},CONTROLLER:{protocol}",
        "sasl.enabled.mechanisms": mechanism,
        "sasl.mechanism.inter.broker.protocol": mechanism,
        "sasl.mechanism.controller.protocol": mechanism,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{KafkaUser.ADMIN}",
        "log.dirs": kafka_data(settings),
        "auto.create.topics.enable": "false",
        "default.replication.factor": 1,
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
    }


def _new_cluster_id() -> str:
    """Like Kafka's own: one that begins with a hyphen would be taken for an option."""
    while True:
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not cluster_id.startswith("-"):
            return cluster_id


def format_once(settings: Settings, configuration: Path) -> None:
    """Give an empty data folder its cluster id. Raises ServiceError."""
    if (kafka_data(settings) / "meta.properties").exists():
        return
    arguments = ("format", "--cluster-id", _new_cluster_id(), "--config", str(configuration))
    command = java_command(settings, "kafka", "kafka.tools.StorageTool", *arguments)
    doing = f"formatting {kafka_data(settings)}"
    done = run_to_end(command, doing, FORMAT_SECONDS_MAX, env=java_environment())
    if done.returncode != 0:
        raise ServiceError(f"Kafka's data folder cannot be formatted: {done.stderr.strip()}")
