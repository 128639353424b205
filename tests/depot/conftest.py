"""The depot's database in the session's stack; and both sources, in a stack of their own."""

from collections.abc import Iterator

import psycopg
import pytest
from lockstep.accounts import Role
from lockstep.capture.source_capture import capture_source
from lockstep.devstack import postgres_database
from lockstep.pipeline.project import read_project
from lockstep.settings import Settings

from tests.e2e.conftest import stack_of_its_own
from tests.project import PROJECT_DIR

DEPOT = "depot"


@pytest.fixture(scope="module")
def two_sources(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """PostgreSQL, Kafka and Connect, which tests kill, with the connectors of both sources."""
    with stack_of_its_own(tmp_path_factory.mktemp("two_sources"), ["connect"]) as settings:
        project = read_project(PROJECT_DIR)
        capture_source(settings, project, project.source(DEPOT))
        yield settings


@pytest.fixture
def depot(postgres: Settings) -> Iterator[Settings]:
    """The database as it is at first; and so again at the end."""
    yield made_again(postgres)
    made_again(postgres)


def made_again(settings: Settings) -> Settings:
    parameters = settings.connection(Role.ADMIN, "postgres")
    with psycopg.connect(**parameters, autocommit=True) as admin:
        admin.execute("DROP DATABASE depot WITH (FORCE)")
    postgres_database.prepare_database(settings)
    return settings
