"""The wheel works alone: without the repository, with no more packages than its metadata names."""

import os
import pkgutil
import subprocess
from collections.abc import Callable
from functools import cache
from importlib.metadata import requires
from pathlib import Path
from zipfile import ZipFile

import lockstep
import pytest
from lockstep.project import MARKER, VARIABLE
from packaging.requirements import Requirement

from tests.project import PROJECT_DIR
from tests.test_requirements import asked_for, canonical, pins, version_of
from tests.wheel.environments import build_wheel, make_environment

pytestmark = pytest.mark.slow

UNITS = Path(__file__).with_name("units.py")
PACKAGES = {
    (): (
        *("accounts", "airflow_admin", "airflow_names", "capture", "cdc", "cli", "delta_tables"),
        *(
            "devstack",
            "errors",
            "faults",
            "file_lock",
            "host",
            "jars",
            "jvm",
            "kafka_login",
            "ledger",
        ),
        *("maintain", "model", "new_project", "observe", "parity", "parity_pages"),
        *("pipeline", "project", "publish", "repair", "settings", "sinks", "sources"),
        *("supervise", "waiting", "whole_folder"),
    ),
    ("spark",): ("batch", "enrich", "histories", "quality", "spark", "streams"),
    ("airflow", "spark"): ("airflow_ops", "airflow_plugin", "airflow_ui"),
}
"""The packages that work with these extras."""
PROCESS_SECONDS_MAX = 60
ONLY_TO_INSTALL = {"setuptools"}
"""In requirements.in, and needed by no import of the wheel."""

Environment = Callable[[tuple[str, ...]], Path]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The interpreter of an environment with these extras, made once."""

    @cache
    def made(extras: tuple[str, ...]) -> Path:
        return make_environment(wheel, tmp_path_factory.mktemp("-".join(("with", *extras))), extras)

    return made


def run(python: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """In a folder of no project, without any variable of this process but PATH."""
    return subprocess.run(
        [str(python), *arguments],
        cwd="/",
        env={"PATH": os.environ["PATH"], "HOME": str(python.parent), "COLUMNS": "100", **variables},
        capture_output=True,
        text=True,
        timeout=PROCESS_SECONDS_MAX,
        check=False,
    )


def test_every_package_has_its_place_in_the_table() -> None:
    listed = [package for packages in PACKAGES.values() for package in packages]
    assert sorted(listed) == sorted(found.name for found in pkgutil.iter_modules(lockstep.__path__))


@pytest.mark.parametrize("extras", PACKAGES, ids="-".join)
def test_a_unit_of_each_package_works_with_its_extras(
    environment: Environment, extras: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / MARKER).mkdir(parents=True)
    variables = {VARIABLE: str(tmp_path), "AIRFLOW_HOME": str(tmp_path / "airflow")}
    done = run(environment(extras), str(UNITS), *PACKAGES[extras], **variables)
    assert done.returncode == 0, done.stderr
    done_packages = [line for line in done.stdout.splitlines() if line in PACKAGES[extras]]
    assert done_packages == list(PACKAGES[extras])


def test_the_command_shows_its_help_without_a_project(environment: Environment) -> None:
    shown = run(environment(()).with_name("lockstep"), "--help")
    assert shown.returncode == 0, shown.stderr
    assert "stream" in shown.stdout
    assert "demo" not in shown.stdout


def test_without_a_project_a_command_says_how_to_name_one(environment: Environment) -> None:
    ended = run(environment(()).with_name("lockstep"), "status")
    assert ended.returncode == 2
    assert VARIABLE in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_without_its_extra_a_package_is_missing(environment: Environment) -> None:
    """Else the tests above would show nothing."""
    assert "No module named 'pyspark'" in run(environment(()), "-c", "import pyspark").stderr
    assert "No module named 'airflow'" in run(environment(()), "-c", "import airflow").stderr


def test_the_wheel_holds_the_library_alone(wheel: Path) -> None:
    with ZipFile(wheel) as held:
        tops = {name.split("/")[0] for name in held.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"lockstep"}


def test_the_wheel_holds_every_file_of_the_library(wheel: Path) -> None:
    """SQL, templates and the pages of DAGs, too, which no import would miss."""
    include = PROJECT_DIR / "include"
    files = {
        file.relative_to(include).as_posix()
        for file in (include / "lockstep").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    with ZipFile(wheel) as held:
        assert files - set(held.namelist()) == set()
    assert "lockstep/airflow_ops/dags/hourly.md" in files


def test_the_wheel_asks_for_what_production_installs() -> None:
    """By name, and each pinned version is one that the wheel allows."""
    asked = [Requirement(text) for text in requires("lockstep")]
    wanted = {canonical(one.name): one for one in asked if one.name != "lockstep"}
    assert set(wanted) == set(asked_for("requirements")) - ONLY_TO_INSTALL
    pinned = pins("requirements")
    for name, requirement in wanted.items():
        assert requirement.specifier.contains(version_of(pinned[name])), requirement
