"""The yard in a stack of its own, which tests kill."""

import os
from collections.abc import Iterator

import pytest
from lockstep.devstack import control
from lockstep.host.ports import free_ports
from lockstep.settings import Settings
from lockstep.supervise import launcher

from tests.conftest import PORT_SETTINGS, remove_stack
from tests.late_tables.yard import PASSWORD, SOURCE, Yard
from tests.secret_scan import leaks

PASSWORDS = [f"LOCKSTEP_SOURCE_{SOURCE.upper()}_{role}_PASSWORD" for role in ("READ", "CAPTURE")]


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    home = tmp_path_factory.mktemp("yard")
    ports = dict(zip(PORT_SETTINGS, free_ports(len(PORT_SETTINGS)), strict=True))
    project = tmp_path_factory.mktemp("project")
    (project / "include" / "sources").mkdir(parents=True)
    (project / "pyproject.toml").write_text('[tool.lockstep]\npipeline = "containers"\n')
    jars = Settings().jars_dir
    settings = Settings(home=home, project=project, jars_dir=jars, **ports)
    for name in PASSWORDS:
        os.environ[name] = PASSWORD
    try:
        made = Yard(control.up(settings, ["connect"]))
        made.prepare()
        yield made
        launcher.stop_all(made.settings, "the tests are over")
        assert leaks(made.settings) == []
    finally:
        launcher.stop_all(settings, "the tests are over")
        remove_stack(settings)
        for name in PASSWORDS:
            del os.environ[name]
