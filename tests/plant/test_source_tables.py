"""What Spark reads of a source's tables: each type's values as the stream gives them, or an error.

The values are those of tests/pipeline: test_types_through_debezium.py holds the stream to the same.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from lockstep.accounts import Role
from lockstep.cdc.cuts import exported_snapshot
from lockstep.pipeline.catalog import Column, ReplicaIdentity, Table
from lockstep.pipeline.decoders import RowDecoder
from lockstep.pipeline.plan import PlannedTable
from lockstep.pipeline.types import arrow_schema, ddl, value_type
from lockstep.settings import Settings
from lockstep.sources.errors import SourceValueError
from lockstep.sources.postgres import connect_to, role_connection
from lockstep.sources.source_tables import SourceReader
from pyspark.sql import SparkSession

from tests.pipeline.array_samples import SAMPLES
from tests.pipeline.test_types_through_debezium import NO_TYPES, TYPES, create, sample_values
from tests.pipeline.type_samples import TABLE, ZONE, catalog_of

pytestmark = [pytest.mark.spark, pytest.mark.services]

COLUMNS = [Column(f"v{place}", s.pg, s.is_nullable) for place, s in enumerate(SAMPLES)]
ROWS = max(len(sample.values) for sample in SAMPLES) + 1
"""The last one has nulls in each column that may have them."""


@pytest.fixture(scope="module")
def admin(postgres: Settings) -> Iterator[psycopg.Connection]:
    """Its session's time zone is the one that timestamps are declared in."""
    connection = postgres.connection(Role.ADMIN)
    with psycopg.connect(**connection, autocommit=True) as admin:
        admin.execute(f"SET TimeZone = '{ZONE}'")
        admin.execute(TYPES)
        try:
            yield admin
        finally:
            admin.execute(NO_TYPES)


def planned(columns: Sequence[Column]) -> PlannedTable:
    """A table of these columns, its key `id` before them."""
    columns = (Column("id", "integer", False), *columns)
    catalog, _ = catalog_of()
    table = Table(TABLE, columns, ("id",), ReplicaIdentity.FULL)
    catalog = type(catalog)(catalog.source, (table,), catalog.enums, catalog.domains)
    types = {one.name: value_type(one, TABLE, catalog, ZONE) for one in columns}
    decoders = RowDecoder(table, list(types), types), RowDecoder(table, ["id"], types)
    return PlannedTable(TABLE, ("id",), types, *decoders)


def read(spark: SparkSession, settings: Settings, table: PlannedTable) -> pa.Table:
    target = role_connection(settings, Role.ADMIN)
    with connect_to(target) as connection, exported_snapshot(connection) as exported:
        found = SourceReader(spark, target, exported).whole(table)
        assert found.schema == spark.createDataFrame([], ddl(table.types)).schema
        return found.toArrow().sort_by("id")


def test_every_value_is_read_as_the_stream_gives_it(
    spark: SparkSession, postgres: Settings, admin: psycopg.Connection
) -> None:
    create(admin, str(TABLE), COLUMNS)
    casts = ", ".join(f"%s::{sample.pg}" for sample in SAMPLES)
    for row in range(ROWS):
        values = [sample_values(sample, row) for sample in SAMPLES]
        admin.execute(f"INSERT INTO {TABLE} VALUES (%s, 1, {casts})", [row, *values])
    table = planned(COLUMNS)
    found = read(spark, postgres, table)
    admin.execute(f"DROP TABLE {TABLE}")
    expected = [list(range(ROWS))]
    expected += [[sample_values(sample, row) for row in range(ROWS)] for sample in SAMPLES]
    schema = arrow_schema(table.types)
    arrays = [pa.array(c, one.type) for c, one in zip(expected, schema, strict=True)]
    wanted: list[Any] = [
        [repr(value) for value in column.to_pylist()] for column in pa.table(arrays, schema).columns
    ]
    for name, type_, one, other in zip(
        table.columns, table.types.values(), read_texts(found, table), wanted, strict=True
    ):
        assert one == other, (name, type_.pg)


def read_texts(found: pa.Table, table: PlannedTable) -> list[list[str]]:
    """The values of each column as text, which NaN and the sign of zero are in; times in UTC."""
    schema = arrow_schema(table.types)
    return [
        [repr(value) for value in column.cast(one.type).to_pylist()]
        for column, one in zip(found.columns, schema, strict=True)
    ]


def test_postgresql_evaluates_no_condition_of_the_query(
    spark: SparkSession, postgres: Settings, admin: psycopg.Connection
) -> None:
    """It would compare texts by its collation, and Spark, as in a stream, does by code points."""
    column = Column("v", "text")
    admin.execute(f"CREATE TABLE {TABLE} (id integer PRIMARY KEY, v text)")
    target = role_connection(postgres, Role.ADMIN)
    with connect_to(target) as connection, exported_snapshot(connection) as exported:
        rows = SourceReader(spark, target, exported).whole(planned([column])).filter("v < 'a'")
        plan = rows._jdf.queryExecution().executedPlan().toString()
    admin.execute(f"DROP TABLE {TABLE}")
    assert "Filter (" in plan
    assert "*LessThan" not in plan  # the asterisk is of conditions that Spark leaves to the source


REFUSED = [
    ("numeric(10,2)", "'NaN'", "NaN"),
    ("date", "'0044-03-15 BC'", "BC, infinity or after the year 9999"),
    ("date", "'-infinity'", "BC, infinity"),
    ("date", "'10000-01-01'", "after the year 9999"),
    ("timestamp with time zone", "'0044-03-15 12:00+00 BC'", "BC, infinity"),
    ("timestamp with time zone", "'infinity'", "BC, infinity"),
    ("timestamp with time zone", "'10000-01-01 00:00+00'", "after the year 9999"),
    ("timestamp without time zone", "'0044-03-15 12:00 BC'", "BC, infinity"),
    ("timestamp without time zone", "'infinity'", "BC, infinity"),
    ("timestamp without time zone", "'294276-12-31 23:59:59'", "after the year 9999"),
    ("timestamp without time zone", "'0001-01-01 00:00'", "BC, infinity"),
    ("timestamp without time zone", "'2026-03-29 02:00'", f"that {ZONE} skips or has twice"),
    ("timestamp without time zone", "'2026-03-29 02:59:59.999999'", f"that {ZONE} skips"),
    ("timestamp without time zone", "'2026-10-25 02:00'", f"that {ZONE} skips or has twice"),
    ("timestamp without time zone", "'2026-10-25 02:59:59.999999'", f"that {ZONE} skips"),
    ("numeric(10,2)[]", "'{1,NaN}'", "NaN"),
    ("integer[]", "'{{1,2},{3,4}}'", "an array of arrays"),
    ("integer[]", "'{NULL,NULL}'", "of nothing but nulls"),
    ("plant.numbers", "'{NULL}'", "of nothing but nulls"),
    ("text[]", "'{{a,b}}'", "an array of arrays"),
    ("text[]", "'{[Ljava.lang.String;@1e205dac}'", "an array of arrays"),
    ("date[]", "'{1582-10-24}'", "before 1582-10-25"),
    ("date[]", "'{2026-01-01,infinity}'", "before 1582-10-25, infinity"),
    ("timestamp with time zone[]", "'{1582-10-24 23:59:59+00}'", "before 1582-10-25"),
    ("timestamp with time zone[]", "'{-infinity}'", "infinity"),
    ("timestamp without time zone[]", "'{2026-03-29 02:30}'", f"that {ZONE} skips"),
    ("timestamp without time zone[]", "'{1582-10-24}'", "before 1582-10-25"),
]


@pytest.mark.parametrize(("pg", "value", "why"), REFUSED)
def test_a_value_that_the_stream_refuses_is_refused(
    spark: SparkSession,
    postgres: Settings,
    admin: psycopg.Connection,
    pg: str,
    value: str,
    why: str,
) -> None:
    column = Column("v", pg, is_nullable=pg != "numeric(10,2)[]")
    admin.execute(f"CREATE TABLE {TABLE} (id integer PRIMARY KEY, v {pg})")
    try:
        admin.execute(f"INSERT INTO {TABLE} VALUES (1, {value})")
        with pytest.raises(SourceValueError, match=f"table {TABLE}, column v: 1 values") as error:
            read(spark, postgres, planned([column]))
        assert why in str(error.value)
    finally:
        admin.execute(f"DROP TABLE {TABLE}")
