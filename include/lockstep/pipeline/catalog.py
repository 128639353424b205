"""The catalog of a source: its tables, their columns, types and keys, as catalog.lock has them.

A lock is written from the database by `lockstep source add`, and kept next to source.toml. It is
JSON with sorted keys, so that two of them differ by what has changed.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Self

from lockstep.pipeline.errors import CatalogError, meant

FORMAT_VERSION = 1


@dataclass(frozen=True, order=True)
class TableName:
    """A table of a database: names are unique within a schema only."""

    schema: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `schema.table`, or `table` of the schema public."""
        schema, dot, name = text.rpartition(".")
        return cls(schema if dot else "public", name)

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


class ReplicaIdentity(StrEnum):
    """What an UPDATE or DELETE writes of the row before (pg_class.relreplident)."""

    DEFAULT = "default"
    FULL = "full"
    INDEX = "index"
    NOTHING = "nothing"


@dataclass(frozen=True)
class Column:
    """type: as PostgreSQL's format_type writes it, such as `numeric(10,2)` or `uuid`."""

    name: str
    type: str
    is_nullable: bool = True


@dataclass(frozen=True)
class Table:
    """key: the columns of its primary key in their order; empty when it has none."""

    name: TableName
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    replica_identity: ReplicaIdentity = ReplicaIdentity.DEFAULT

    def column(self, name: str) -> Column:
        """Raises CatalogError when the table has no column of this name."""
        for column in self.columns:
            if column.name == name:
                return column
        known = [column.name for column in self.columns]
        raise CatalogError(f"table {self.name} has no column {name}: {meant(name, known)}")


@dataclass(frozen=True)
class Catalog:
    """tables: in the order of their names. enums: the labels of each enum type, in their order.

    domains: the type that each domain is over. Both by the name that format_type writes.
    """

    source: str
    tables: tuple[Table, ...]
    enums: dict[str, tuple[str, ...]] = field(default_factory=dict)
    domains: dict[str, str] = field(default_factory=dict)

    def table(self, name: TableName) -> Table:
        """Raises CatalogError when the source has no table of this name."""
        for table in self.tables:
            if table.name == name:
                return table
        known = [str(table.name) for table in self.tables]
        raise CatalogError(
            f"source {self.source} has no table {name}: {meant(str(name), known)}; if it is new "
            f"in the database, write the catalog again with `lockstep source add {self.source}`"
        )


@dataclass(frozen=True)
class ForeignKey:
    """columns: of `table`, each with the column of `refers_to` that it refers to."""

    table: TableName
    refers_to: TableName
    columns: Mapping[str, str]


def write_catalog(catalog: Catalog) -> str:
    """The text of catalog.lock."""
    content = {
        "format_version": FORMAT_VERSION,
        "source": catalog.source,
        "tables": {str(table.name): _written(table) for table in catalog.tables},
        "enums": {name: list(labels) for name, labels in catalog.enums.items()},
        "domains": catalog.domains,
    }
    return json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def read_catalog(text: str, file: Path) -> Catalog:
    """The catalog in a lock's text; `file` is named in errors.

    Raises CatalogError when the text is no lock of this version.
    """
    try:
        content = json.loads(text)
        version = content["format_version"]
        if version != FORMAT_VERSION:
            raise CatalogError(
                f"{file} has format version {version}, and this Lockstep reads {FORMAT_VERSION}: "
                "install the Lockstep that wrote it, or write it again with `lockstep source add`"
            )
        return Catalog(
            source=content["source"],
            tables=tuple(_tables(content["tables"])),
            enums={name: tuple(labels) for name, labels in content["enums"].items()},
            domains=content["domains"],
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CatalogError(
            f"{file} is damaged ({type(error).__name__}: {error}): write it again with "
            "`lockstep source add`, or restore it from your repository"
        ) from error


def _written(table: Table) -> dict:
    """Columns as a list: their order is the table's."""
    return {
        "columns": [
            {"name": column.name, "type": column.type, "nullable": column.is_nullable}
            for column in table.columns
        ],
        "key": list(table.key),
        "replica_identity": str(table.replica_identity),
    }


def _tables(content: dict) -> Iterable[Table]:
    for name, table in sorted(content.items()):
        columns = tuple(
            Column(column["name"], column["type"], column["nullable"])
            for column in table["columns"]
        )
        identity = ReplicaIdentity(table["replica_identity"])
        yield Table(TableName.parse(name), columns, tuple(table["key"]), identity)
