"""The catalog that is read from a real PostgreSQL, of tables made for it."""

from collections.abc import Iterator

import psycopg
import pytest
from lockstep.accounts import Role
from lockstep.pipeline.catalog import (
    Catalog,
    Column,
    ReplicaIdentity,
    TableName,
    read_catalog,
    write_catalog,
)
from lockstep.settings import Settings
from lockstep.sources.database_catalog import read_database_catalog
from lockstep.sources.postgres import connect

from tests.pipeline.test_catalog import LOCK

pytestmark = pytest.mark.services
SCHEMA = "plant 1"
MADE = f"""
CREATE SCHEMA "{SCHEMA}";
SET LOCAL search_path TO "{SCHEMA}", public;
CREATE TYPE state AS ENUM ('on', 'off', 'broken');
ALTER TYPE state ADD VALUE 'idle' BEFORE 'off';
CREATE DOMAIN amount AS numeric(12, 3) CHECK (value >= 0);
CREATE DOMAIN price AS amount;
CREATE TABLE readings (
    dropped integer,
    at timestamp(3) NOT NULL,
    sensor uuid,
    value price,
    states state[],
    note varchar(20),
    "Odd ""name"" here" char(3),
    PRIMARY KEY (sensor, at) INCLUDE (note)
);
ALTER TABLE readings DROP COLUMN dropped, ADD COLUMN added timestamptz NOT NULL DEFAULT now();
ALTER TABLE readings REPLICA IDENTITY FULL;
CREATE TABLE parted (id bigint NOT NULL, day date NOT NULL) PARTITION BY RANGE (day);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
CREATE TABLE bag (text text);
CREATE VIEW seen AS SELECT * FROM bag;
"""


@pytest.fixture(scope="module")
def catalog(postgres: Settings) -> Iterator[Catalog]:
    """Read by a role without rights on the tables."""
    with connect(postgres, Role.ADMIN) as admin:
        with admin.transaction():
            admin.execute(MADE)
        with connect(postgres, Role.BATCH_READER) as reader:
            yield read_database_catalog(reader, "depot", [SCHEMA])
        admin.execute(f'DROP SCHEMA "{SCHEMA}" CASCADE')


def test_tables_are_there_without_partitions_and_views(catalog: Catalog) -> None:
    assert [table.name.name for table in catalog.tables] == ["bag", "parted", "readings"]


def test_columns_have_their_order_their_types_and_their_nulls(catalog: Catalog) -> None:
    assert catalog.table(TableName(SCHEMA, "readings")).columns == (
        Column("at", "timestamp(3) without time zone", False),
        Column("sensor", "uuid", False),
        Column("value", f'"{SCHEMA}".price'),
        Column("states", f'"{SCHEMA}".state[]'),
        Column("note", "character varying(20)"),
        Column('Odd "name" here', "character(3)"),
        Column("added", "timestamp with time zone", False),
    )


def test_a_key_has_its_own_order_and_no_included_column(catalog: Catalog) -> None:
    assert catalog.table(TableName(SCHEMA, "readings")).key == ("sensor", "at")
    assert catalog.table(TableName(SCHEMA, "bag")).key == ()


def test_the_replica_identity_is_there(catalog: Catalog) -> None:
    found = {table.name.name: table.replica_identity for table in catalog.tables}
    assert found == {
        "bag": ReplicaIdentity.DEFAULT,
        "parted": ReplicaIdentity.DEFAULT,
        "readings": ReplicaIdentity.FULL,
    }


def test_enums_keep_the_order_of_their_labels(catalog: Catalog) -> None:
    assert catalog.enums[f'"{SCHEMA}".state'] == ("on", "idle", "off", "broken")


def test_a_domain_names_the_type_that_it_is_over(catalog: Catalog) -> None:
    assert catalog.domains[f'"{SCHEMA}".amount'] == "numeric(12,3)"
    assert catalog.domains[f'"{SCHEMA}".price'] == f'"{SCHEMA}".amount'


def test_the_search_path_of_the_connection_changes_nothing(
    postgres: Settings, catalog: Catalog
) -> None:
    with connect(postgres, Role.ADMIN) as admin:
        admin.execute(f'SET search_path TO "{SCHEMA}"')
        assert read_database_catalog(admin, "depot", [SCHEMA]) == catalog
        (path,) = admin.execute("SHOW search_path").fetchone()
    assert path == f'"{SCHEMA}"'


def test_it_goes_through_the_lock_unchanged(catalog: Catalog) -> None:
    assert read_catalog(write_catalog(catalog), LOCK) == catalog


def test_a_schema_that_is_not_there_has_no_tables(postgres: Settings) -> None:
    with connect(postgres, Role.BATCH_READER) as reader:
        assert read_database_catalog(reader, "depot", ["nowhere"]).tables == ()


def test_the_example_s_tables_are_read(postgres: Settings) -> None:
    with connect(postgres, Role.BATCH_READER) as reader:
        found = read_database_catalog(reader, "pizzeria")
    orders = found.table(TableName("public", "orders"))
    assert orders.key == ("id",)
    assert orders.column("pizzas").type == "integer[]"


def test_a_closed_connection_is_psycopg_s_error(postgres: Settings) -> None:
    with connect(postgres, Role.BATCH_READER) as reader:
        pass
    with pytest.raises(psycopg.Error):
        read_database_catalog(reader, "depot")
