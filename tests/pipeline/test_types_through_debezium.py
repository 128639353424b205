"""Every supported type from PostgreSQL through the real Debezium, by snapshot and as changes.

And what Debezium 3.6.3 sends that is not what PostgreSQL holds: the reason of each refusal.
"""

import json
import time
from collections.abc import Iterator
from datetime import date
from typing import Any

import psycopg
import pytest
from lockstep.accounts import Role
from lockstep.pipeline.catalog import Catalog, Column, ReplicaIdentity, Table, TableName
from lockstep.pipeline.decoders import UNCHANGED, RowDecoder
from lockstep.pipeline.errors import TypeRefusedError
from lockstep.pipeline.types import value_type
from lockstep.settings import Settings
from msgspec.structs import astuple

from tests.pipeline.array_samples import SAMPLES
from tests.pipeline.own_connector import SECONDS_MAX, Event, of_table, own_connector, status
from tests.pipeline.type_samples import DOMAINS, ENUMS, TABLE, ZONE, Sample

pytestmark = pytest.mark.services

NAMES = [f"v{number}" for number in range(len(SAMPLES))]
ROWS = max(len(sample.values) for sample in SAMPLES)
CHANGED = 100
"""Added to the id of a row of the snapshot: the same row, inserted later."""
LARGE, LAST = 1000, 9999
TYPES = """
CREATE SCHEMA plant; CREATE SCHEMA "Weird Schema";
CREATE TYPE mood AS ENUM ('ok', 'sad "x"', 'a,b');
CREATE TYPE "Weird Schema".state AS ENUM ('on', 'off');
CREATE DOMAIN price AS numeric(10,2); CREATE DOMAIN net_price AS price;
CREATE DOMAIN plant.numbers AS integer[];
CREATE DOMAIN plant.moment AS timestamp(3); CREATE DOMAIN plant.clock AS time(3);
CREATE DOMAIN plant.code AS character(5); CREATE DOMAIN plant.blob AS bytea;
CREATE DOMAIN plant.document AS jsonb; CREATE DOMAIN plant.label AS text;
GRANT USAGE ON SCHEMA plant, "Weird Schema" TO cdc
"""
NO_TYPES = """
DROP SCHEMA plant CASCADE; DROP DOMAIN net_price, price;
DROP SCHEMA "Weird Schema" CASCADE; DROP TYPE mood
"""
LARGE_COLUMNS = {
    "text": "repeat('x', 9000)",
    "character varying(9999)": "repeat('x', 9000)",
    "character(3000)": "repeat('x', 3000)",
    "json": "to_json(repeat('x', 9000))",
    "jsonb": "to_jsonb(repeat('x', 9000))",
    "bytea": "repeat('x', 9000)::bytea",
    "plant.label": "repeat('x', 9000)",
    "plant.document": "to_jsonb(repeat('x', 9000))",
    "plant.blob": "repeat('x', 9000)::bytea",
    "smallint[]": "array_fill(7, ARRAY[900])",
    "integer[]": "array_fill(7, ARRAY[900])",
    "bigint[]": "array_fill(7, ARRAY[900])",
    "numeric(10,2)[]": "array_fill(7, ARRAY[900])",
    "real[]": "array_fill(7, ARRAY[900])",
    "double precision[]": "array_fill(7, ARRAY[900])",
    "boolean[]": "array_fill(true, ARRAY[900])",
    "text[]": "array_fill('xyz'::text, ARRAY[900])",
    "character varying(20)[]": "array_fill('xyz'::text, ARRAY[900])",
    "character(5)[]": "array_fill('xyz'::text, ARRAY[900])",
    "json[]": "array_fill('1'::json, ARRAY[900])",
    "jsonb[]": "array_fill('1'::jsonb, ARRAY[900])",
    "uuid[]": "array_fill('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid, ARRAY[900])",
    "bytea[]": "array_fill('xyz'::bytea, ARRAY[900])",
    "date[]": "array_fill('2026-01-01'::date, ARRAY[900])",
    "timestamp without time zone[]": "array_fill('2026-01-01'::timestamp, ARRAY[900])",
    "timestamp with time zone[]": "array_fill('2026-01-01'::timestamptz, ARRAY[900])",
    "time without time zone[]": "array_fill('12:00'::time, ARRAY[900])",
    "mood[]": "array_fill('ok'::mood, ARRAY[900])",
    "plant.numbers": "array_fill(7, ARRAY[900])",
}
"""A value of each type that PostgreSQL keeps outside of the row."""
ODD = {
    "numeric(10,2)": "'NaN'",
    "date": "'0044-03-15 BC'",
    "timestamp without time zone": "'0044-03-15 12:00 BC'",
    "numeric(10,2)[]": "'{1,NaN}'",
    "mood[]": "'{ok,NULL}'",
    "time without time zone[]": "'{00:00:00.123456,24:00:00}'",
    "price[]": "'{1}'",
    "integer[]": "'{{1,2},{3,4}}'",
    "bytea[]": "'{{a}}'",
    "text[]": "'{{a,b}}'",
    "date[]": "'{0044-03-15 BC,1582-10-10}'",
    "timestamp without time zone[]": "'{1582-10-10}'",
    "timestamp with time zone[]": "'{0044-03-15 12:00+00 BC,-infinity}'",
}
"""A value of each type that does not come as PostgreSQL holds it."""


def sample_values(sample: Sample, row: int) -> Any:
    """The row's value of the sample; null behind the last, where there may be one."""
    values = list(sample.values.values())
    if row < len(values):
        return values[row]
    return None if sample.is_nullable else values[0]


def columns_of(types: list[str]) -> list[Column]:
    return [Column(f"v{number}", pg) for number, pg in enumerate(types)]


def create(admin: psycopg.Connection, table: str, columns: list[Column]) -> None:
    """Large values are kept outside of the row, uncompressed, however few they are."""
    defined = ", ".join(
        f"{column.name} {column.type}{'' if column.is_nullable else ' NOT NULL'}"
        for column in columns
    )
    admin.execute(
        f"CREATE TABLE {table} (id integer PRIMARY KEY, note integer NOT NULL, {defined}) "
        "WITH (toast_tuple_target = 128)"
    )
    moved = (
        f"ALTER {column.name} SET STORAGE EXTERNAL"
        for column in columns
        if column.type.endswith("[]") or column.type in LARGE_COLUMNS
    )
    admin.execute(f"ALTER TABLE {table} {', '.join(moved)}")
    admin.execute(f"GRANT SELECT ON {table} TO cdc")


def insert_samples(admin: psycopg.Connection, first_id: int) -> None:
    casts = ", ".join(f"%s::{sample.pg}" for sample in SAMPLES)
    for row in range(ROWS):
        admin.execute(
            f"INSERT INTO {TABLE} VALUES (%s, 1, {casts})",
            [first_id + row, *(sample_values(sample, row) for sample in SAMPLES)],
        )


def insert_row(admin: psycopg.Connection, table: str, id_: int, values: dict[str, str]) -> None:
    listed = ", ".join(f"{value}::{pg}" for pg, value in values.items())
    admin.execute(f"INSERT INTO {table} VALUES ({id_}, 1, {listed})")


@pytest.fixture(scope="module")
def admin(change_capture: Settings) -> Iterator[psycopg.Connection]:
    """Its session's time zone is the one that timestamps are declared in."""
    connection = change_capture.connection(Role.ADMIN)
    with psycopg.connect(**connection, autocommit=True) as admin:
        admin.execute(f"SET TimeZone = '{ZONE}'")
        admin.execute(TYPES)
        try:
            yield admin
        finally:
            admin.execute(NO_TYPES)


@pytest.fixture(scope="module")
def events(change_capture: Settings, admin: psycopg.Connection) -> list[Event]:
    """All changes of three tables: of the snapshot, and of what is done after it."""
    sampled = [Column(n, s.pg, s.is_nullable) for n, s in zip(NAMES, SAMPLES, strict=True)]
    create(admin, str(TABLE), sampled)
    admin.execute(f"ALTER TABLE {TABLE} REPLICA IDENTITY FULL")
    create(admin, "plant.large", columns_of(list(LARGE_COLUMNS)))
    create(admin, "plant.odd", columns_of(list(ODD)))
    insert_samples(admin, first_id=0)
    insert_row(admin, "plant.odd", LAST, ODD)
    tables = ["plant.large", str(TABLE), "plant.odd"]
    with own_connector(change_capture, tables) as reader:
        found = reader.until(lambda event: b'"id":9999,' in event.row)
        insert_samples(admin, first_id=CHANGED)
        fill_large_arrays(admin)
        insert_row(admin, "plant.large", 1, LARGE_COLUMNS)
        admin.execute("UPDATE plant.large SET note = 2")
        admin.execute(f"UPDATE {TABLE} SET note = 2")
        admin.execute("DELETE FROM plant.large")
        admin.execute(f"DELETE FROM {TABLE}")
        insert_row(admin, "plant.odd", LAST + 1, ODD)
        return found + reader.until(lambda event: b'"id":10000,' in event.row)


def fill_large_arrays(admin: psycopg.Connection) -> None:
    """One row whose arrays are kept outside of it, in the table that logs whole rows."""
    arrays = [(n, LARGE_COLUMNS[s.pg]) for n, s in zip(NAMES, SAMPLES, strict=True)
              if s.pg in LARGE_COLUMNS and s.pg.endswith("[]")]  # fmt: skip
    names, values = zip(*arrays, strict=True)
    types = dict(zip(NAMES, (sample.pg for sample in SAMPLES), strict=True))
    casts = ", ".join(f"{v}::{types[n]}" for n, v in zip(names, values, strict=True))
    admin.execute(
        f"INSERT INTO {TABLE} (id, note, {', '.join(names)}) VALUES ({LARGE}, 1, {casts})"
    )


def decoder_of(
    name: TableName, columns: list[Column], identity: ReplicaIdentity, read: list[str] | None = None
) -> RowDecoder:
    table = Table(name, (Column("id", "integer", False), *columns), ("id",), identity)
    catalog = Catalog("types", (table,), ENUMS, DOMAINS)
    read = read or [column.name for column in table.columns]
    types = {one: value_type(table.column(one), name, catalog, ZONE) for one in read}
    return RowDecoder(table, read, types)


def is_same(one: Any, other: Any) -> bool:
    """Equal and of one type; NaN is the same as itself, and 0.0 not as -0.0."""
    return repr(one) == repr(other) if type(one) in (float, list) else one == other


def test_the_catalogs_names_are_those_that_format_type_writes(
    events: list[Event], admin: psycopg.Connection
) -> None:
    found = admin.execute(
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute "
        "WHERE attrelid = %s::regclass AND attnum > 2 ORDER BY attnum",
        [str(TABLE)],
    ).fetchall()
    assert [name for (name,) in found] == [sample.pg for sample in SAMPLES]


@pytest.mark.parametrize(
    ("op", "first_id"),
    [("r", 0), ("c", CHANGED), ("u", 0), ("d", 0), ("u", CHANGED), ("d", CHANGED)],
)
def test_every_value_comes_as_postgresql_holds_it(
    events: list[Event], op: str, first_id: int
) -> None:
    columns = [Column(n, s.pg, s.is_nullable) for n, s in zip(NAMES, SAMPLES, strict=True)]
    decoder = decoder_of(TABLE, columns, ReplicaIdentity.FULL)
    rows = [
        astuple(decoder.decode(event.row))
        for event in events
        if (event.source.table, event.op) == (TABLE.name, op)
    ]
    by_id = {id_: values for id_, *values in rows}
    for row in range(ROWS):
        for sample, value in zip(SAMPLES, by_id[first_id + row], strict=True):
            assert is_same(value, sample_values(sample, row)), (sample.pg, op, row, value)


@pytest.mark.parametrize("op", ["c", "u", "d"])
def test_large_arrays_come_with_every_change_of_a_table_that_logs_whole_rows(
    events: list[Event], op: str
) -> None:
    (row,) = [row for row in of_table(events, TABLE.name, op) if row["id"] == LARGE]
    large = [row[n] for n, s in zip(NAMES, SAMPLES, strict=True)
             if s.pg in LARGE_COLUMNS and s.pg.endswith("[]")]  # fmt: skip
    assert len(large) > 10
    assert {len(array) for array in large} == {900}


def test_a_large_value_that_an_update_leaves_as_it_was_is_marked_or_its_type_refused(
    events: list[Event],
) -> None:
    (row,) = [e.row for e in events if (e.source.table, e.op) == ("large", "u")]
    refused = set()
    for column in columns_of(list(LARGE_COLUMNS)):
        name = TableName("plant", "large")
        try:
            decoder = decoder_of(name, [column], ReplicaIdentity.DEFAULT, [column.name])
        except TypeRefusedError:
            refused |= {column.type}
            assert json.loads(row)[column.name] is None, column.type
            continue
        assert astuple(decoder.decode(row)) == (UNCHANGED,), column.type
    assert refused == {
        *("smallint[]", "numeric(10,2)[]", "real[]", "double precision[]", "boolean[]", "mood[]"),
        *("timestamp without time zone[]", "timestamp with time zone[]"),
        *("time without time zone[]", "plant.numbers"),
    }


def test_of_a_delete_only_the_key_comes_unless_whole_rows_are_logged(events: list[Event]) -> None:
    (row,) = of_table(events, "large", "d")
    assert (row.pop("id"), row.pop("note")) == (1, 0)  # it was 2
    assert set(row.values()) == {None}


def days(year: int, month: int, day: int) -> int:
    return (date(year, month, day) - date(1970, 1, 1)).days


OF_BOTH = {
    "numeric(10,2)": "NAN",
    "timestamp without time zone": -63517780800000000,
    "numeric(10,2)[]": None,
    "mood[]": None,
    "time without time zone[]": [123000, 0],
    "price[]": "missing",
    "integer[]": [None, None],
    "bytea[]": [None],
    "date[]": [days(44, 3, 15), days(1582, 10, 20)],
    "timestamp without time zone[]": [-12218860800000000],
    "timestamp with time zone[]": [
        "0044-03-15T12:00:00.000000Z",
        "+292269055-12-02T23:00:00.000000Z",
    ],
}
"""By the column's type, in the snapshot and in changes alike."""


@pytest.mark.parametrize("op", ["r", "c"])
def test_what_debezium_does_not_send_as_it_is(events: list[Event], op: str) -> None:
    """Each is refused by type or by value. But a BC date of a snapshot looks like any other."""
    (row,) = of_table(events, "odd", op)
    found = {column.type: row.get(column.name, "missing") for column in columns_of(list(ODD))}
    (text,) = found.pop("text[]")
    assert text.startswith("[Ljava.lang.String;@")
    assert found.pop("date") == {"r": days(44, 3, 15), "c": -735160}[op]
    assert found == OF_BOTH


def test_no_connector_starts_while_there_is_a_domain_over_an_enum(
    change_capture: Settings, events: list[Event], admin: psycopg.Connection
) -> None:
    admin.execute("CREATE DOMAIN plant.named_mood AS mood")
    with own_connector(change_capture, ["plant.odd"]):
        deadline = time.monotonic() + SECONDS_MAX
        while "FAILED" not in (found := status(change_capture)):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    admin.execute("DROP DOMAIN plant.named_mood")
    assert "NullPointerException" in found
    assert "TypeRegistry" in found
