"""One service of the stack as a container's main process, for docker-compose.yml.

    python -m lockstep.devstack.container run kafka       become the service
    python -m lockstep.devstack.container healthy kafka   exit code 0 when it answers, else why not
    python -m lockstep.devstack.container prepare         databases, Airflow's tables, the connector

Configuration, preparation and probes are those of `lockstep up`. What an engine of containers does
itself is left to it: processes, their order and restarts, logs, and who reaches which port.
"""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg

from lockstep.airflow_admin.environment import (
    airflow_environment,
    airflow_home,
    write_sign_in_password,
)
from lockstep.capture.connector_classes import compiled
from lockstep.devstack import airflow, connect, kafka, metrics, postgres_database
from lockstep.devstack.service import Service
from lockstep.errors import LockstepError, ServiceError, exit_on_error
from lockstep.host.process import Launch
from lockstep.jvm.java import java_command, java_environment
from lockstep.settings import Settings, holds_password

HEAP_MB = 1024
"""Of Kafka and of Connect each: a machine of its own, not two cores shared by all."""
STDOUT = Path("/dev/stdout")
"""The log: the engine keeps it."""

SERVICES: dict[str, Service] = {
    one.name: one
    for one in (kafka.Kafka(), connect.Connect(), metrics.Metrics(), *airflow.COMPONENTS)
}


def run(settings: Settings, name: str) -> None:
    """Write the service's configuration, then become it: never returns. Raises LockstepError."""
    launch = _LAUNCHES[name](settings)
    os.chdir(launch.working_folder)
    sys.stdout.flush()
    # The same process, so that the engine's signals reach the service itself.
    os.execve(launch.command[0], list(launch.command), dict(launch.environment))  # noqa: S606


def healthy(settings: Settings, name: str) -> str | None:
    """Ask once, in the service's own protocol: None when it answers, else why not."""
    try:
        return SERVICES[name].problem(settings)
    except LockstepError as error:
        return str(error)


def prepare(settings: Settings) -> None:
    """What has to be in the services before Airflow starts; what is there already stays.

    PostgreSQL and Connect must answer. Raises ServiceError.
    """
    try:
        postgres_database.prepare_database(settings)
    except psycopg.Error as error:
        raise ServiceError(f"PostgreSQL cannot be prepared: {str(error).strip()}") from error
    airflow.ensure_migrated(settings)
    for name in (kafka.Kafka.name, connect.Connect.name):
        SERVICES[name].finish(settings)


def _kafka(settings: Settings) -> Launch:
    configuration = kafka.write_configuration(settings)
    kafka.format_once(settings, configuration)
    return _jvm(settings, "kafka", "kafka.Kafka", configuration)


def _connect(settings: Settings) -> Launch:
    configuration = connect.write_configuration(settings)
    main = "org.apache.kafka.connect.cli.ConnectDistributed"
    return _jvm(settings, "connect", main, configuration, compiled(settings))


def _jvm(
    settings: Settings, part: str, main: str, configuration: Path, classes: Path | None = None
) -> Launch:
    """A JVM of one part of jars/ivy.xml, which reads one configuration file."""
    command = java_command(
        settings, part, main, str(configuration), heap_mb=HEAP_MB, classes=classes
    )
    return Launch(command, STDOUT, java_environment(), configuration.parent)


def _metrics(settings: Settings) -> Launch:
    return Launch(metrics.COMMAND, STDOUT, metrics.metrics_environment(settings), settings.home)


def _airflow(component: airflow.AirflowComponent) -> Callable[[Settings], Launch]:
    def launch(settings: Settings) -> Launch:
        environment = airflow_environment(settings) | _given()
        write_sign_in_password(settings)
        return Launch(component.command, STDOUT, environment, airflow_home(settings))

    return launch


def _given() -> dict[str, str]:
    """What the container's own environment says of Airflow wins over what settings give.

    Its passwords go along to the tasks: there is no secrets.env that they could be read from.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("AIRFLOW__", "AIRFLOW_CONN_"))
        or (name.startswith("LOCKSTEP_") and holds_password(name))
    }


_LAUNCHES: dict[str, Callable[[Settings], Launch]] = {
    "kafka": _kafka,
    "connect": _connect,
    "metrics": _metrics,
    **{one.name: _airflow(one) for one in airflow.COMPONENTS},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lockstep.devstack.container", description=__doc__
    )
    actions = parser.add_subparsers(dest="action", required=True)
    for action in ("run", "healthy"):
        actions.add_parser(action).add_argument("service", choices=list(SERVICES))
    actions.add_parser("prepare")
    arguments = parser.parse_args()
    settings = Settings.load()
    if arguments.action == "prepare":
        prepare(settings)
    elif arguments.action == "run":
        run(settings, arguments.service)
    elif problem := healthy(settings, arguments.service):
        sys.exit(f"{arguments.service}: {problem}")


if __name__ == "__main__":
    with exit_on_error():
        main()
