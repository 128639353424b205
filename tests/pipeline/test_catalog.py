"""catalog.lock: what is written is read again, and what is wrong is named."""

import json
from pathlib import Path

import pytest
from lockstep.pipeline.catalog import (
    Catalog,
    Column,
    ReplicaIdentity,
    Table,
    TableName,
    read_catalog,
    write_catalog,
)
from lockstep.pipeline.errors import CatalogError

LOCK = Path("include", "sources", "depot", "catalog.lock")
READINGS = Table(
    TableName("plant", "readings"),
    (Column("id", "uuid", False), Column("value", "numeric(12,3)"), Column("state", "plant.state")),
    ("id",),
    ReplicaIdentity.FULL,
)
SENSORS = Table(TableName("public", "sensors"), (Column("id", "bigint", False),), ("id",))
CATALOG = Catalog(
    "depot", (READINGS, SENSORS), {"plant.state": ("on", "off")}, {"price": "numeric(10,2)"}
)


def test_a_written_catalog_is_read_as_it_was() -> None:
    assert read_catalog(write_catalog(CATALOG), LOCK) == CATALOG


def test_columns_keep_the_order_of_the_table() -> None:
    read = read_catalog(write_catalog(CATALOG), LOCK)
    names = [column.name for column in read.table(READINGS.name).columns]
    assert names == ["id", "value", "state"]


def test_a_table_name_without_a_schema_is_of_public() -> None:
    assert TableName.parse("sensors") == SENSORS.name
    assert TableName.parse("plant.readings") == READINGS.name
    assert str(READINGS.name) == "plant.readings"


def test_an_unknown_table_is_an_error_with_the_name_probably_meant() -> None:
    with pytest.raises(CatalogError, match=r"did you mean plant\.readings\?"):
        CATALOG.table(TableName("plant", "reading"))


def test_an_unknown_column_is_an_error_with_those_that_there_are() -> None:
    with pytest.raises(CatalogError, match=r"no column xyz: there are: id, state, value"):
        READINGS.column("xyz")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", json.dumps({"format_version": 1, "source": "a", "tables": {"t": 1}})],
)
def test_a_damaged_lock_is_named(text: str) -> None:
    with pytest.raises(CatalogError, match=f"{LOCK} is damaged"):
        read_catalog(text, LOCK)


def test_a_lock_of_another_version_is_refused() -> None:
    text = write_catalog(CATALOG).replace('"format_version": 1', '"format_version": 2')
    with pytest.raises(CatalogError, match="has format version 2, and this Lockstep reads 1"):
        read_catalog(text, LOCK)
