"""The table of differences as earlier versions wrote it: refused, and written as it is now.

They named the row by a column of an integer; now it is the row's key as text.
"""

from collections.abc import Iterator

from deltalake import DeltaTable, write_deltalake

from lockstep.errors import LakehouseError
from lockstep.ledger.entries import DIFFERENCES_COLUMNS, ROW_KEY
from lockstep.pipeline.plan import plan_named
from lockstep.settings import Settings
from lockstep.sinks.append_log import APPEND_ONLY
from lockstep.sinks.delta_commits import NO_HOOKS, WRITER, translate_delta_errors
from lockstep.sinks.local_lakehouse import sole_writer
from lockstep.sources.delta import open_table, run_query


def require_row_keys(settings: Settings) -> None:
    """Raise LakehouseError for a table of before; none yet is as good as one of this version."""
    uri = settings.table_uri(settings.names.differences)
    if DeltaTable.is_deltatable(uri) and _is_of_before(open_table(uri)):
        raise LakehouseError(
            f"the table {uri} has no column {ROW_KEY}, for an earlier version wrote it: stop what "
            "runs, then `lockstep upgrade` writes its rows as this version reads them"
        )


def upgrade_differences(settings: Settings) -> Iterator[str]:
    """Write the table's rows with their keys as text, in one commit; says so.

    Killed at any point it may be done again. Raises WriterBusyError while a comparison writes, and
    LakehouseError when the table cannot be written.
    """
    uri = settings.table_uri(settings.names.differences)
    if not DeltaTable.is_deltatable(uri) or _is_finished(open_table(uri)):
        return
    with sole_writer(settings, settings.names.differences), translate_delta_errors(uri):
        table = open_table(uri)
        if _is_of_before(table):
            table.alter.set_table_properties({APPEND_ONLY: "false"})
            (old,) = plan_named(settings.project, settings.names.pipeline).key
            _write_keys(table, old)
        table.alter.set_table_properties({APPEND_ONLY: "true"})
    yield f"{uri} names each row by its key, {ROW_KEY}, in place of an integer"


def _write_keys(table: DeltaTable, old: str) -> None:
    """old: the column of an integer, which was called as the pipeline's key is."""
    columns = ", ".join(
        f"'[' || CAST({old} AS VARCHAR) || ']' AS {ROW_KEY}" if name == ROW_KEY else name
        for name in DIFFERENCES_COLUMNS
    )
    write_deltalake(
        table,
        run_query(f"SELECT {columns} FROM differing", {"differing": table}),  # noqa: S608 - names
        mode="overwrite",
        schema_mode="overwrite",
        writer_properties=WRITER,
        post_commithook_properties=NO_HOOKS,
    )


def _is_finished(table: DeltaTable) -> bool:
    is_append_only = table.metadata().configuration.get(APPEND_ONLY) == "true"
    return is_append_only and not _is_of_before(table)


def _is_of_before(table: DeltaTable) -> bool:
    return ROW_KEY not in {field.name for field in table.schema().fields}
