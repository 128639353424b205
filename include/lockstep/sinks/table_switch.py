"""Replaces the content of an append-only table by that of another one, in one commit.

Readers by path see the old content or the new one, whole, and one who reads an older version goes
on reading it: its files stay until a later vacuum.
"""

from collections.abc import Mapping

from deltalake import DeltaTable, WriterProperties, write_deltalake
from deltalake.exceptions import DeltaError

from lockstep.errors import LakehouseError
from lockstep.sinks.append_log import (
    capture_id_of,
    commit_properties,
    marks_of,
    reached_of,
    rewritable,
)


def switch_content(uri: str, new_uri: str) -> int:
    """Make the table at `uri` equal to the one at `new_uri`, frontier included; returns its rows.

    Guarantees: one commit changes rows, columns, frontier, resume offset and capture together. A
    table that is not there yet is made. The caller is the only writer of both. Run again, it comes
    to the same. Raises LakehouseError; then the old content is what readers see.
    """
    try:
        new = DeltaTable(new_uri)
        table = _opened(uri, new)
        with rewritable(table):
            _overwrite(table, new)
            described = new.metadata()
            if described.description:
                table.alter.set_table_description(described.description)
            if own := _own(described.configuration, are_own=True):
                table.alter.set_table_properties(own, raise_if_not_exists=False)
        return DeltaTable(uri).count()
    except (DeltaError, OSError) as error:
        raise LakehouseError(f"the table {uri} cannot be replaced by {new_uri}: {error}") from error


def _opened(uri: str, like: DeltaTable) -> DeltaTable:
    if DeltaTable.is_deltatable(uri):
        return DeltaTable(uri)
    described = like.metadata()
    return DeltaTable.create(
        uri,
        like.schema(),
        partition_by=described.partition_columns,
        configuration=_own(described.configuration, are_own=False),
    )


def _own(properties: Mapping[str, str], *, are_own: bool) -> dict[str, str]:
    """Our properties, or Delta's: a table is made with these alone."""
    return {
        name: value
        for name, value in properties.items()
        if are_own is not name.startswith("delta.")
    }


def _overwrite(table: DeltaTable, new: DeltaTable) -> None:
    write_deltalake(
        table,
        new.to_pyarrow_dataset().scanner().to_reader(),
        mode="overwrite",
        schema_mode="overwrite",
        partition_by=new.metadata().partition_columns,
        writer_properties=WriterProperties(compression="ZSTD"),
        commit_properties=commit_properties(marks_of(reached_of(new), capture_id_of(new))),
    )
