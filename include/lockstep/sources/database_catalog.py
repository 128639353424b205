"""Reads from PostgreSQL what its tables are, as the catalog of a source. Changes nothing."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import psycopg

from lockstep.pipeline.catalog import Catalog, Column, ForeignKey, ReplicaIdentity, Table, TableName

_READS = Path(__file__).with_name("catalog_reads")
_REPLICA_IDENTITIES = {
    "d": ReplicaIdentity.DEFAULT,
    "f": ReplicaIdentity.FULL,
    "i": ReplicaIdentity.INDEX,
    "n": ReplicaIdentity.NOTHING,
}
"""By pg_class.relreplident (the manual: "pg_class")."""


def read_database_catalog(
    connection: psycopg.Connection, source: str, schemas: Collection[str] = ("public",)
) -> Catalog:
    """The tables of these schemas, in one snapshot, with the enums and domains of the database.

    Partitioned tables are there without their partitions, views and foreign tables not at all.
    Types are written in full: only PostgreSQL's own are without a schema. The connection is in
    autocommit, and its role needs no rights but to connect. Raises psycopg.Error.
    """
    values = {"schemas": list(schemas)}
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        connection.execute("SET LOCAL search_path TO ''")
        columns = connection.execute(_text("columns"), values).fetchall()
        keys = connection.execute(_text("keys"), values).fetchall()
        enums = connection.execute(_text("enums")).fetchall()
        domains = connection.execute(_text("domains")).fetchall()
    return Catalog(
        source=source,
        tables=tuple(_tables(columns, {(schema, table): key for schema, table, key in keys})),
        enums={name: tuple(labels) for name, labels in sorted(enums)},
        domains=dict(sorted(domains)),
    )


def read_foreign_keys(connection: psycopg.Connection) -> tuple[ForeignKey, ...]:
    """Those of the database that are checked at once. Raises psycopg.Error."""
    tables: dict[int, tuple[TableName, TableName]] = {}
    columns: dict[int, dict[str, str]] = defaultdict(dict)
    for number, schema, table, column, *other in connection.execute(_text("foreign_keys")):
        to_schema, to_table, to_column = other
        tables[number] = TableName(schema, table), TableName(to_schema, to_table)
        columns[number][column] = to_column
    return tuple(ForeignKey(*tables[number], columns[number]) for number in tables)


def _text(name: str) -> str:
    return (_READS / f"{name}.sql").read_text(encoding="utf-8")


def _tables(rows: Iterable[tuple], keys: dict[tuple[str, str], list[str]]) -> Iterable[Table]:
    """rows: of columns.sql, those of a table together."""
    for name, columns in groupby(rows, key=itemgetter(0, 1, 2)):
        schema, table, identity = name
        yield Table(
            name=TableName(schema, table),
            columns=tuple(Column(*column[3:]) for column in columns),
            key=tuple(keys.get((schema, table), ())),
            replica_identity=_REPLICA_IDENTITIES[identity],
        )
