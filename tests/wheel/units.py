"""One small piece of work for each package of the library, run by an interpreter with its wheel.

    python units.py PACKAGE …

None needs the project's folder, a service or a JVM. Every module of the package is imported first.
Writes the name of each package whose piece was done; the first that fails ends it.
"""

import importlib
import os
import pkgutil
import sys
import tempfile
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

ELEVEN = datetime(2015, 1, 1, 11, tzinfo=UTC)


def airflow_ops() -> None:
    from lockstep.model.windows import Windows

    assert Windows().due_at(Windows().at(ELEVEN)) == ELEVEN + timedelta(hours=1, minutes=5)


def airflow_plugin() -> None:
    from lockstep.airflow_plugin import LockstepPlugin

    assert LockstepPlugin.timetables


def airflow_ui() -> None:
    from lockstep.airflow_ui.data_docs import create_app

    assert create_app(Path()).routes


def batch() -> None:
    from lockstep.batch.spark_errors import spark_failures
    from lockstep.settings import Settings

    with spark_failures(Settings.load()):
        pass


def capture() -> None:
    from lockstep.capture.connector_classes import SOURCES
    from lockstep.capture.connectors import SOURCE_TEMPLATE

    assert list(SOURCES.rglob("*.java"))
    assert SOURCE_TEMPLATE.exists()


def cdc() -> None:
    from lockstep.cdc.cuts import DatabaseSnapshot

    assert DatabaseSnapshot.parse("10:20:12,15").in_progress == {12, 15}


def accounts() -> None:
    from lockstep.accounts import Role

    assert Role.CDC == "cdc"


def airflow_admin() -> None:
    from lockstep.accounts import AIRFLOW_DATABASE
    from lockstep.airflow_admin import metadata

    assert metadata.AIRFLOW_DATABASE == AIRFLOW_DATABASE


def airflow_names() -> None:
    from lockstep.airflow_names import PARITY_URL

    assert PARITY_URL.startswith("/")


def cli() -> None:
    from lockstep.cli import app

    assert app.registered_groups


def model() -> None:
    from lockstep.model.window import Window

    assert Window(ELEVEN, ELEVEN + timedelta(hours=1)).start == ELEVEN


def devstack() -> None:
    from lockstep.devstack.control import SERVICES

    assert SERVICES


def enrich() -> None:
    from lockstep.enrich.few_rows import FewRows

    assert "planned" in FewRows.__doc__


def errors() -> None:
    from lockstep.errors import LockstepError

    assert LockstepError.exit_code == 2


def faults() -> None:
    from lockstep.faults import Point, reach

    reach(next(iter(Point)))


def file_lock() -> None:
    from lockstep.file_lock import holder

    assert holder(Path(tempfile.mkdtemp()) / "lock") is None


def delta_tables() -> None:
    from deltalake.exceptions import TableNotFoundError
    from lockstep.delta_tables import open_delta

    with suppress(TableNotFoundError):
        open_delta("/no/table")
        raise AssertionError("a table was found")


def whole_folder() -> None:
    from lockstep.whole_folder import whole_folder

    with tempfile.TemporaryDirectory() as folder:
        with whole_folder(Path(folder) / "mine") as place:
            place.mkdir()
        assert (Path(folder) / "mine").is_dir()


def waiting() -> None:
    from lockstep.waiting import wait_until

    assert wait_until(lambda: True, seconds_max=0, pause_seconds=0)


def host() -> None:
    from lockstep.host.ports import free_ports

    assert len(set(free_ports(2))) == 2


def jars() -> None:
    from lockstep.jars.install import MANIFEST
    from lockstep.jars.lock import read_lock

    assert MANIFEST.exists()
    assert len(read_lock()) > 100


def jvm() -> None:
    from lockstep.jvm.java import properties

    assert properties({"a": "b"}) == "a=b\n"


def kafka_login() -> None:
    from lockstep.kafka_login import login_module

    assert login_module("a.Login", {"username": "u"}).startswith("a.Login")


def ledger() -> None:
    from lockstep.ledger.status import status_table

    assert status_table([], "").row_count == 0


def maintain() -> None:
    from lockstep.maintain.sizes import size_of

    assert size_of(Path(tempfile.mkdtemp())) == 0


def histories() -> None:
    from lockstep.histories.steps import NO_ROW, SAME_ROW

    assert NO_ROW != SAME_ROW


def new_project() -> None:
    from lockstep.new_project.create import create_project

    with tempfile.TemporaryDirectory() as folder:
        create_project(Path(folder) / "mine")
        assert (Path(folder) / "mine" / "dags" / "pipelines.py").exists()


def observe() -> None:
    from lockstep.observe.latency import LatencyWindow

    assert LatencyWindow().snapshot(ELEVEN) is None


def parity() -> None:
    from lockstep.model.modes import StreamMode
    from lockstep.model.verdict import DifferenceClass
    from lockstep.parity.policy import Policy
    from lockstep.pipeline.tolerate import Tolerate

    policy = Policy(Tolerate(lookup=("lookup_race",)))
    assert policy.limit(StreamMode.LOOKUP, DifferenceClass.LOOKUP_RACE, 100) == 10


def parity_pages() -> None:
    from lockstep.parity_pages.render import TEMPLATES

    assert (TEMPLATES / "parity.html").exists()


def pipeline() -> None:
    from lockstep.pipeline.catalog import Catalog, read_catalog, write_catalog

    empty = Catalog("depot", ())
    assert read_catalog(write_catalog(empty), Path("catalog.lock")) == empty


def project() -> None:
    from lockstep.project import project_dir

    assert project_dir().is_dir()


def publish() -> None:
    from lockstep.publish.conditions import FRONTIER_SECONDS_MAX

    assert FRONTIER_SECONDS_MAX > 0


def quality() -> None:
    from lockstep.quality.suite import COLUMN_CHECKS

    assert COLUMN_CHECKS


def repair() -> None:
    from lockstep.repair.changed_rows import How, how_changed
    from lockstep.sources.window_rows import MadeOf

    one, two = MadeOf(7), MadeOf(8)
    assert how_changed({(1,): one}, {(1,): one, (2,): two}) == {(2,): How.NEW}


def settings() -> None:
    from lockstep.settings import Settings

    assert Settings.load().home == Path(os.environ["LOCKSTEP_PROJECT"]) / ".lockstep"


def sinks() -> None:
    from lockstep.pipeline.delta_types import arrow_schema

    assert arrow_schema({"id": "bigint"}).names == ["id"]


def sources() -> None:
    from lockstep.sources.capture import _QUERY

    assert "pg_replication_slots" in _QUERY.read_text(encoding="utf-8")


def spark() -> None:
    from lockstep.spark import LOG_CONFIGURATION

    assert LOG_CONFIGURATION.exists()


def streams() -> None:
    from lockstep.streams.class_archive import SOURCES

    assert list(SOURCES.rglob("*.java"))


def supervise() -> None:
    from lockstep.supervise.restart_policy import pause_seconds

    assert pause_seconds(1) >= 0


def import_all(name: str) -> None:
    """The package and every module in it."""
    package = importlib.import_module(f"lockstep.{name}")
    for module in pkgutil.walk_packages(getattr(package, "__path__", []), f"{package.__name__}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


if __name__ == "__main__":
    for chosen in sys.argv[1:]:
        import_all(chosen)
        globals()[chosen]()
        sys.stdout.write(f"{chosen}\n")
