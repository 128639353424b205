"""Kafka Connect, distributed, on loopback; the connector's home.

Its REST interface asks for a password: who may configure a connector may have it write anything.

The worker's configuration and process are here; the connectors in it are connector.py's, and their
passwords connector_secrets.py's.

Sources deliver at least once, as is the default: after a crash some transactions come again, whole
(capture/java), and the streams know them by their numbers. Exactly-once sources write in
Kafka's transactions, and a broker that was killed left one of those open for ever in 1 of 20 kills:
no reader of committed records, Connect itself included, gets past it.
"""

import signal
from pathlib import Path

import httpx

from lockstep.accounts import KafkaUser, Role
from lockstep.capture import connector
from lockstep.capture.connector_classes import compiled
from lockstep.capture.connector_secrets import CDC_PASSWORD_KEY, keep_passwords, secrets_file
from lockstep.capture.connectors import embedded_connectors, embedded_sources
from lockstep.capture.source_capture import keep_captured
from lockstep.host.certificates import certificates
from lockstep.host.files import bounded_log, make_private_folder, write_private
from lockstep.host.ports import Port
from lockstep.host.process import Launch
from lockstep.jvm.java import java_command, java_environment, properties, write_jvm_files
from lockstep.kafka_login import PLAIN_LOGIN, PROTOCOL, login_module
from lockstep.pipeline.project import read_project
from lockstep.settings import Settings

HEAP_MB = 512
REST_SECONDS_MAX = 2.0
_BASIC_AUTH = "org.apache.kafka.connect.rest.basic.auth.extension"


class Connect:
    """The worker as a service of the stack, with the connectors of the project's templates."""

    name = "connect"
    needs: tuple[str, ...] = ("postgres", "kafka")
    ready_seconds_max = 120.0
    stop_signal = signal.SIGTERM
    stop_seconds_max = 30.0

    def address(self, settings: Settings) -> str:
        return settings.connect_url

    def ports(self, settings: Settings) -> list[Port]:
        return [Port.of(settings, "connect_host", "connect_port")]

    def launch(self, settings: Settings) -> Launch:
        configuration = write_configuration(settings)
        return Launch(
            command=java_command(
                settings,
                "connect",
                "org.apache.kafka.connect.cli.ConnectDistributed",
                str(configuration),
                heap_mb=HEAP_MB,
                classes=compiled(settings),
            ),
            log=bounded_log(settings.home, self.name),
            environment=java_environment(),
            working_folder=configuration.parent,
        )

    def problem(self, settings: Settings) -> str | None:
        """GET /health is 200 once the worker has read its topics and joined its group."""
        try:
            answer = httpx.get(
                f"{settings.connect_url}/health",
                auth=settings.connect_auth,
                timeout=REST_SECONDS_MAX,
                verify=certificates(),
            )
        except httpx.HTTPError as error:
            return f"{settings.connect_url}: {error}"
        return None if answer.is_success else f"HTTP {answer.status_code} {answer.text[:200]}"

    def trouble(self, settings: Settings) -> str | None:
        troubles = (connector.trouble(settings, one) for one in embedded_connectors(settings))
        return next((trouble for trouble in troubles if trouble is not None), None)

    def finish(self, settings: Settings) -> None:
        project = read_project(settings.project)
        for source in embedded_sources(settings, project):
            keep_captured(settings, project, source)


def write_configuration(settings: Settings) -> Path:
    """The files that Connect reads as it starts; returns that of its properties."""
    folder = make_private_folder(settings.home / "connect")
    configuration = folder / "worker.properties"
    write_private(configuration, properties(worker_properties(settings)))
    write_jvm_files(folder, _logins(settings))
    user, password = settings.connect_auth
    write_private(_rest_users_file(settings), properties({user: password}))
    keep_passwords(settings, {CDC_PASSWORD_KEY: settings.password(Role.CDC)})
    return configuration


def _logins(settings: Settings) -> dict[str, str]:
    """Who signs in to the REST interface, and as whom the worker signs in to Kafka."""
    kafka = {"username": KafkaUser.ADMIN, "password": settings.password(KafkaUser.ADMIN)}
    rest = {"file": str(_rest_users_file(settings))}
    return {
        "KafkaClient": login_module(PLAIN_LOGIN, kafka),
        "KafkaConnect": login_module(f"{_BASIC_AUTH}.PropertyFileLoginModule", rest),
    }


def worker_properties(settings: Settings) -> dict[str, object]:
    """The worker's configuration. Passwords come from a file that only its owner can read."""
    return {
        "bootstrap.servers": settings.kafka_bootstrap,
        # The worker's own clients, and those that it makes for connectors.
        **{
            f"{prefix}{name}": value
            for prefix in ("", "producer.", "consumer.", "admin.")
            for name, value in PROTOCOL.items()
        },
        "rest.extension.classes": f"{_BASIC_AUTH}.BasicAuthSecurityRestExtension",
        "group.id": "lockstep-connect",
        "listeners": settings.connect_url,
        "rest.advertised.host.name": settings.connect_host,
        "rest.advertised.port": settings.connect_port,
        "plugin.discovery": "service_load",  # the plugins are on the class path
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "key.converter.schemas.enable": "false",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        # The slot moves with the offsets, and what comes after them comes again after a crash.
        "offset.flush.interval.ms": 1000,
        # One request is under way at a time, which keeps the order: so it may be a large one.
        "producer.batch.size": 131072,
        "producer.linger.ms": 0,  # what waits meanwhile goes together all the same
        "scheduled.rebalance.max.delay.ms": 0,
        "producer.compression.type": "lz4",  # the change topic keeps everything
        **{
            f"{kind}.storage.{name}": value
            for kind in ("config", "offset", "status")
            for name, value in (("topic", f"lockstep.connect.{kind}"), ("replication.factor", 1))
        },
        "offset.storage.partitions": 1,
        "status.storage.partitions": 1,
        "config.providers": "file",
        "config.providers.file.class": (
            "org.apache.kafka.common.config.provider.FileConfigProvider"
        ),
        "config.providers.file.param.allowed.paths": secrets_file(settings),
    }


def _rest_users_file(settings: Settings) -> Path:
    return settings.home / "connect" / "rest-users.properties"
