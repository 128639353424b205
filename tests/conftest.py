"""What tests of several rooms share: a home of their own and the embedded stack in it.

The services are started by the same code as `lockstep up`, once a session and only as far as a
test asks for them, and stopped at its end.
"""

import logging
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lockstep.devstack import control, postgres_files
from lockstep.host.files import make_private_folder
from lockstep.host.ports import free_ports
from lockstep.project import VARIABLE
from lockstep.settings import Settings
from lockstep.spark import spark_session
from pizzeria.shop.loader import load
from pizzeria.shop.pizza_place import read_pizza_place

from tests.hourly_table import SMALL_PIZZERIA, empty_pizzeria
from tests.project import PROJECT_DIR

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logging.getLogger("py4j").setLevel(logging.WARNING)  # it says goodbye after pytest's streams close

MARKS = ("e2e", "services", "spark", "slow")
"""The first of these that a test has is what its minutes are counted for."""
_seconds_by_mark: Counter[str] = Counter()
KAFKA_JVM_OPTIONS = "LOCKSTEP_KAFKA_JVM_OPTIONS"
"""A test's Kafka and Connect live for minutes: their second compiler would only take time."""
SPARK_EVENTS = "spark-events"
"""The folder of the home with the event logs of the jobs that Airflow submits."""
PORT_SETTINGS = (
    "postgres_port",
    "kafka_port",
    "kafka_controller_port",
    "connect_port",
    "airflow_port",
    "metrics_port",
)


class FailuresAtOnce:
    """Says why a test failed when it does: a run that is ended early has no summary."""

    def __init__(self, config: pytest.Config) -> None:
        self._config, self._last = config, ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.failed:
            return
        crash = getattr(report.longrepr, "reprcrash", None)
        why = crash.message if crash else report.longreprtext
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None and why != self._last:  # a fixture's failure is that of many tests
            terminal.write_line(f"\n{report.nodeid}, {report.when}: {why}", red=True)
        self._last = why


def pytest_configure(config: pytest.Config) -> None:
    """Whatever the working folder of a process that a test starts, this project is meant."""
    os.environ[VARIABLE] = str(PROJECT_DIR)
    os.environ.setdefault(KAFKA_JVM_OPTIONS, "-XX:TieredStopAtLevel=1")
    config.pluginmanager.register(FailuresAtOnce(config))


def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as cores: tests of processes wait for a third of the time."""
    return (os.cpu_count() or 1) * 3 // 2


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note the test's mark in its reports, which may come from another process."""
    mark = next((mark for mark in MARKS if item.get_closest_marker(mark)), "unmarked")
    item.user_properties.append(("mark", mark))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count the time of a test, and of what is set up for it."""
    mark = dict(report.user_properties).get("mark")
    if mark is not None:
        _seconds_by_mark[mark] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Minutes for each mark; of tests that ran at the same time, their sum."""
    minutes = [f"{mark} {seconds / 60:.1f}" for mark, seconds in _seconds_by_mark.most_common()]
    if minutes:
        terminalreporter.write_line(f"minutes by mark: {', '.join(minutes)}")


@pytest.fixture(scope="session")
def stack_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings of a temporary home and free ports, also in the environment; nothing runs yet."""
    home = tmp_path_factory.mktemp("home")
    ports = dict(zip(PORT_SETTINGS, free_ports(len(PORT_SETTINGS)), strict=True))
    chosen = {"home": str(home), **{name: str(port) for name, port in ports.items()}}
    with pytest.MonkeyPatch.context() as environment:
        for name in [name for name in os.environ if name.startswith("LOCKSTEP_")]:
            if name not in ("LOCKSTEP_JARS_DIR", KAFKA_JVM_OPTIONS, VARIABLE):
                environment.delenv(name)
        for name, value in chosen.items():
            environment.setenv(f"LOCKSTEP_{name.upper()}", value)
        settings = Settings.load()
        yield settings
        remove_stack(settings)


def remove_stack(settings: Settings) -> None:
    """Stop what a test left running, and remove the database, which may lie outside the home."""
    control.down(settings)
    postgres_files.remove(settings)


@pytest.fixture(scope="session")
def postgres(stack_settings: Settings) -> Settings:
    """PostgreSQL with the pizzeria's empty schema; yields settings with all passwords."""
    return control.up(stack_settings, ["postgres"])


@pytest.fixture(scope="module")
def change_capture(postgres: Settings) -> Settings:
    """PostgreSQL, Kafka, and Connect with the pizzeria's connector running.

    For each module again, since tests stop services of the shared stack.
    """
    return control.up(postgres, ["connect"])


@pytest.fixture(scope="module")
def airflow_stack(change_capture: Settings) -> Settings:
    """The whole stack, Airflow with the project's DAGs included.

    For each module again: Airflow's components end when a test kills their database. The jobs that
    its tasks submit write Spark's event logs, in which no password may be either.
    """
    configuration = make_private_folder(change_capture.home / "spark-conf")
    events = make_private_folder(change_capture.home / SPARK_EVENTS)
    lines = "spark.eventLog.enabled true", f"spark.eventLog.dir {events.as_uri()}"
    (configuration / "spark-defaults.conf").write_text("\n".join(lines))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SPARK_CONF_DIR", str(configuration))
        return control.up(change_capture)


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """The one Spark session of the whole test run: 7 s, paid once.

    2 GB, where a process of its own has 1: it runs what hundreds of processes do.
    """
    settings = Settings.load().model_copy(update={"spark_driver_memory": "2g"})
    session = spark_session(settings, "lockstep tests")
    yield session
    session.stop()


class Kept:
    """A session that stays when it is stopped."""

    def __init__(self, spark: "SparkSession") -> None:
        self.newSession = spark.newSession

    def stop(self) -> None:
        pass


@pytest.fixture(autouse=True)
def forgotten_tables(request: pytest.FixtureRequest) -> Iterator[None]:
    """Delta keeps each table that Spark opened for an hour, megabytes of plans with it."""
    yield
    if "spark" in request.fixturenames:
        session: SparkSession = request.getfixturevalue("spark")
        session._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


@pytest.fixture
def pizzeria(postgres: Settings, tmp_path: Path) -> Iterator[Settings]:
    """The small data set loaded, and a lakehouse of the test's own, still empty."""
    empty_pizzeria(postgres)
    load(postgres, read_pizza_place(SMALL_PIZZERIA))
    yield postgres.model_copy(update={"lakehouse": str(tmp_path / "lakehouse")})
    empty_pizzeria(postgres)
