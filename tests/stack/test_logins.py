"""The roles of a source's applications get their passwords when the database is prepared."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from lockstep.accounts import Role
from lockstep.devstack import postgres_database
from lockstep.errors import ServiceError
from lockstep.pipeline.project_files import SOURCES
from lockstep.settings import Settings, source_password_setting

pytestmark = pytest.mark.services

SOURCE, LOGIN = "clinic", "clinic_nurse"
MANIFEST = 'format_version = 1\nkind = "postgres"\ndatabase = "{name}"\nlogins = ["{login}"]\n'


@pytest.fixture
def clinic(postgres: Settings, tmp_path: Path) -> Iterator[Settings]:
    """A project of its own whose one source has a login; its database and roles go at the end."""
    settings = postgres.model_copy(update={"project": tmp_path})
    add_source(settings, SOURCE)
    yield settings
    with psycopg.connect(**settings.connection(Role.ADMIN, "postgres"), autocommit=True) as admin:
        for database in (SOURCE, "other_clinic"):
            admin.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
            admin.execute(f"DROP ROLE IF EXISTS {database}_owner")
        admin.execute(f"DROP ROLE IF EXISTS {LOGIN}")


def add_source(settings: Settings, name: str, roles: str = f"CREATE ROLE {LOGIN} LOGIN;") -> None:
    database = settings.project / SOURCES / name / "database"
    database.mkdir(parents=True)
    (database.parent / "source.toml").write_text(MANIFEST.format(name=name, login=LOGIN))
    (database / "owner_files.txt").write_text("")
    (database / "roles.sql").write_text(roles)


def sign_in(settings: Settings, password: str) -> None:
    parameters = settings.connection(Role.ADMIN, "postgres")
    psycopg.connect(**parameters | {"user": LOGIN, "password": password}).close()


def test_a_login_signs_in_with_its_password_and_with_the_next_one(
    clinic: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ServiceError, match="LOCKSTEP_SOURCE_CLINIC__CLINIC_NURSE_PASSWORD"):
        postgres_database.prepare_database(clinic)
    for password in ("the first", "the next"):
        monkeypatch.setenv(source_password_setting(SOURCE, LOGIN), password)
        postgres_database.prepare_database(clinic)
        with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
            sign_in(clinic, password)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        sign_in(clinic, "the first")


@pytest.mark.parametrize("roles", ["", f"CREATE ROLE {LOGIN} NOLOGIN;"], ids=["none", "nologin"])
def test_a_login_that_does_not_sign_in_is_named(clinic: Settings, roles: str) -> None:
    (clinic.project / SOURCES / SOURCE / "database" / "roles.sql").write_text(roles)
    with pytest.raises(ServiceError, match=rf"source\.toml: `logins` names {LOGIN}, which is no"):
        postgres_database.prepare_database(clinic)


def test_two_sources_cannot_share_a_login(
    clinic: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(source_password_setting(SOURCE, LOGIN), "given")
    add_source(clinic, "other_clinic", roles="")
    with pytest.raises(ServiceError, match=rf"{LOGIN}, which is a login of source {SOURCE} too"):
        postgres_database.prepare_database(clinic)
