"""Both sources of the project, captured, in a stack of their own: its services are killed."""

from collections.abc import Iterator

import pytest
from lockstep.capture.source_capture import capture_source
from lockstep.pipeline.project import read_project
from lockstep.settings import Settings

from tests.e2e.conftest import stack_of_its_own
from tests.project import PROJECT_DIR

DEPOT = "depot"


@pytest.fixture(scope="session")
def two_sources(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """PostgreSQL, Kafka and Connect with the connectors of the pizzeria and the depot."""
    with stack_of_its_own(tmp_path_factory.mktemp("two_sources"), ["connect"]) as settings:
        project = read_project(PROJECT_DIR)
        capture_source(settings, project, project.source(DEPOT))
        yield settings
