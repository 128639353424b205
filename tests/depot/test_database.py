"""The depot's database, as `lockstep up` makes it of its folder."""

import json
import shutil
import threading
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest
from lockstep.accounts import Role
from lockstep.devstack import postgres_database
from lockstep.errors import ServiceError
from lockstep.pipeline.catalog import write_catalog
from lockstep.pipeline.folder import CATALOG_FILE
from lockstep.pipeline.plan import plan_of
from lockstep.pipeline.project import read_project
from lockstep.pipeline.project_files import SOURCES
from lockstep.settings import Settings
from lockstep.sources.database_catalog import read_database_catalog
from lockstep.sources.fixed_time import keeping_time_statements
from lockstep.sources.postgres import connect_to
from lockstep.sources.publishing import publishing_statements
from lockstep.sources.source_database import reader_of

from tests.depot.conftest import DEPOT
from tests.depot.writer import BOOKED, KEYS, PACKED, clerk, rows_of
from tests.project import PROJECT_DIR

pytestmark = pytest.mark.services
SECONDS_MAX = 30
CONSIGNMENTS = 426
LINES = sum(1 + n % 4 for n in range(CONSIGNMENTS))
WEIGHT = sum(
    Decimal("0.250") * (1 + (n + 3 * line_no) % 40)
    for n in range(CONSIGNMENTS)
    for line_no in range(1, 2 + n % 4)
)
NEW = "00000000-0000-0000-0000-0000000000aa"


def test_the_data_has_its_known_totals(depot: Settings) -> None:
    with clerk(depot) as connection:
        counted = "SELECT count(*), sum(weight) FROM freight.consignment_lines"
        assert connection.execute(counted).fetchone() == (LINES, WEIGHT)
        days = connection.execute(
            "SELECT booked_at::date::text, count(*) FROM freight.consignments GROUP BY 1 ORDER BY 1"
        ).fetchall()
        assert days == [("2026-03-28", 144), ("2026-03-29", 138), ("2026-03-30", 144)]
        assert {name: len(rows_of(connection, name)) for name in KEYS} == {
            name: LINES if len(key) > 1 else CONSIGNMENTS for name, key in KEYS.items()
        }


@pytest.mark.parametrize(
    ("view", "outbox"),
    [("consignments_packed_in", "packed_outbox"), ("lines_priced_in", "lines_outbox")],
)
def test_each_row_was_published_as_the_view_has_it(depot: Settings, view: str, outbox: str) -> None:
    with psycopg.connect(**depot.connection(Role.ADMIN, DEPOT)) as connection:
        connection.execute("SET TIME ZONE 'UTC'")
        rows, published = f"SELECT to_jsonb(v) FROM freight.{view} AS v", f"freight.{outbox}"
        differing = f"SELECT count(*) FROM {published} WHERE payload::jsonb - 'op' NOT IN ({rows})"
        assert connection.execute(differing).fetchone() == (0,)


def test_the_folder_has_the_sql_that_prepare_gives_and_the_databases_catalog(
    depot: Settings,
) -> None:
    project = read_project(PROJECT_DIR)
    source = project.source(DEPOT)
    folder = PROJECT_DIR / SOURCES / DEPOT
    target = reader_of(depot, source)
    with connect_to(target, application_name="lockstep tests") as connection:
        connection.autocommit = True
        for pipeline in KEYS:
            plan = plan_of(project.pipeline(pipeline))
            statements = [
                *keeping_time_statements(plan),
                *publishing_statements(connection, source, plan, target.role),
            ]
            file = folder / "database" / f"prepare_{pipeline}.sql"
            assert file.read_text(encoding="utf-8").splitlines() == (
                "\n".join(statements).splitlines()
            )
        found = read_database_catalog(connection, DEPOT, ("freight",))
    assert write_catalog(found) == (folder / CATALOG_FILE).read_text(encoding="utf-8")


def test_the_application_has_its_rights_and_no_more(depot: Settings) -> None:
    with clerk(depot) as connection:
        for statement in (
            "CREATE TABLE freight.mine (id integer)",
            "INSERT INTO freight.packed_outbox (payload) VALUES ('{}')",
            "TRUNCATE freight.consignments CASCADE",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
        with pytest.raises(psycopg.errors.IntegrityConstraintViolation, match="cannot change"):
            connection.execute("UPDATE freight.consignments SET booked_at = now()")


def test_two_that_add_lines_to_one_consignment_publish_one_after_the_other(
    depot: Settings,
) -> None:
    """Neither waits for the other's foreign key, and the second publishes both lines."""
    with clerk(depot) as one, clerk(depot) as other:
        one.execute(
            "INSERT INTO freight.consignments VALUES (%s, 'BER', 1, 'express', '2026-03-30')", [NEW]
        )
        one.autocommit = other.autocommit = False
        add(one, 1)
        add(other, 2)
        publish(one)
        second = threading.Thread(target=publish, args=[other])
        second.start()
        wait_until_blocked(depot)
        one.commit()
        second.join(SECONDS_MAX)
        assert not second.is_alive()
        other.commit()
    assert [len(json.loads(payload)["packed"]) for payload in published(depot)] == [1, 2]


def add(connection: psycopg.Connection, line_no: int) -> None:
    connection.execute(
        "INSERT INTO freight.consignment_lines VALUES (%s, %s, 'G1', 1, 1, '2026-03-30')",
        [NEW, line_no],
    )


def publish(connection: psycopg.Connection) -> None:
    connection.execute("SELECT freight.lockstep_publish__consignments_packed(%s, 'u')", [NEW])


def wait_until_blocked(settings: Settings) -> None:
    with psycopg.connect(**settings.connection(Role.ADMIN, DEPOT), autocommit=True) as admin:
        query = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        for _ in range(SECONDS_MAX * 100):
            if admin.execute(query).fetchone()[0]:
                return
            admin.execute("SELECT pg_sleep(0.01)")
    pytest.fail("the second does not wait for the first")


def published(settings: Settings) -> list[str]:
    with psycopg.connect(**settings.connection(Role.ADMIN, DEPOT)) as admin:
        query = "SELECT payload FROM freight.packed_outbox WHERE payload LIKE %s ORDER BY id"
        return [payload for (payload,) in admin.execute(query, [f"%{NEW}%"])]


def test_sql_that_fails_is_named_and_leaves_the_database_as_it_was(
    depot: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = postgres_database._text

    def spoilt(file: object) -> str:
        return f"{read(file)}\nSELECT no_such;" if "views.sql" in str(file) else read(file)

    monkeypatch.setattr(postgres_database, "_text", spoilt)
    with pytest.raises(ServiceError, match=r"views\.sql fails: .*no_such"):
        postgres_database.prepare_database(depot)
    monkeypatch.undo()
    with clerk(depot) as connection:
        assert len(rows_of(connection, BOOKED)) == len(rows_of(connection, PACKED)) == CONSIGNMENTS


def test_a_folder_that_is_incomplete_is_named_and_keeps_no_other_from_being_prepared(
    depot: Settings, tmp_path: Path
) -> None:
    shutil.copytree(PROJECT_DIR / "include", tmp_path / "include", ignore=without_the_library)
    shutil.copy(PROJECT_DIR / "pyproject.toml", tmp_path)
    broken = tmp_path / SOURCES / "a_broken_one"
    (broken / "database").mkdir(parents=True)
    (broken / "source.toml").write_text(
        'format_version = 1\nkind = "postgres"\ndatabase = "a_broken_one"\n'
    )
    with psycopg.connect(**depot.connection(Role.ADMIN, "postgres"), autocommit=True) as admin:
        admin.execute("DROP DATABASE depot WITH (FORCE)")
    with pytest.raises(
        ServiceError, match=r"a_broken_one/database/owner_files\.txt cannot be read"
    ):
        postgres_database.prepare_database(depot.model_copy(update={"project": tmp_path}))
    with clerk(depot) as connection:
        assert len(rows_of(connection, BOOKED)) == CONSIGNMENTS


def without_the_library(_folder: str, names: list[str]) -> set[str]:
    return {"lockstep"} & set(names)
