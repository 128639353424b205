"""A home that an earlier version made becomes one of this version: `lockstep upgrade`.

Nothing else may run meanwhile, for an earlier version's drivers know the same leases. Every step
may be done again: after a kill at any point, upgrade again.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

from deltalake import CommitProperties, DeltaTable, write_deltalake

from lockstep.errors import LakehouseError
from lockstep.ledger.differences_of_before import upgrade_differences
from lockstep.model.modes import HISTORY
from lockstep.pipeline.delta_types import arrow_type
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.plan import plan_named
from lockstep.pipeline.result_tables import CHANGE_PARTITION, HOURLY_PARTITION, LOOK_UP, ORIGIN
from lockstep.settings import Settings
from lockstep.sinks import table_of_before
from lockstep.sinks.append_log import APPEND_ONLY
from lockstep.sinks.delta_commits import NO_HOOKS, WRITER, translate_delta_errors
from lockstep.sinks.local_lakehouse import local_folder, sole_writer, writer_lock
from lockstep.sinks.table_of_before import name_of_before
from lockstep.sources.delta import open_table, run_query
from lockstep.sources.hourly_runs import (
    HOURLY_PARTITIONS_OF_BEFORE,
    SAME_ROWS,
    has_hours_of_before,
    has_more_fields,
    is_of_before,
    open_hourly,
)
from lockstep.streams import identity
from lockstep.supervise import lease
from lockstep.supervise.folder import OWN, folder_of_before, mode_folder

HISTORY_OF_BEFORE = "dimension_changes"
"""What the history of the tables that facts refer to was called, in the source's folder."""


def upgrade(settings: Settings) -> list[str]:
    """What was done, a sentence each; nothing in a home of this version.

    Raises StreamBusyError while a stream, the history's writer or the publisher runs,
    WriterBusyError while an hourly run, a repair or a comparison does, LakehouseError when a table
    cannot be written.
    """
    done = []
    with ExitStack() as held:
        for worker in OWN:
            held.enter_context(lease.acquire(settings, worker))
            if folder_of_before(settings, worker).exists():
                held.enter_context(lease.acquire_of_before(settings, worker))
        for step in (
            _move_tables,
            _move_workers,
            _replace_history,
            _lay_out_hourly,
            _narrow_look_ups,
        ):
            done += step(settings)
        done += upgrade_differences(settings)
    return done


def _move_tables(settings: Settings) -> Iterator[str]:
    """Each table goes to where its name says; in an object store a person moves it."""
    lakehouse = local_folder(settings.lakehouse_uri)
    if lakehouse is None:
        yield from _to_be_moved(settings)
        return
    for table in settings.names.tables:
        folder, target = table_of_before.folder_of_before(lakehouse, table), lakehouse / table
        if folder is None:
            continue
        if target.exists():
            raise LakehouseError(
                f"both {folder} and {target} are there: the second was made by this version before "
                "the upgrade. Move it out of the lakehouse, and upgrade again"
            )
        with writer_lock(folder, 0.0), writer_lock(target, 0.0):
            folder.rename(target)
        yield f"{folder} is now {target}"


def _move_workers(settings: Settings) -> Iterator[str]:
    """The files of each stream, and of the publisher, go to where its address says.

    What this version's commands have left there before the upgrade is nothing that a stream goes
    on from: no table of before can be written before it is moved.
    """
    for worker in OWN:
        folder, target = folder_of_before(settings, worker), mode_folder(settings, worker)
        leaving = folder.with_name(f".{folder.name}.replaced")
        if folder.exists():
            if target.exists():
                shutil.rmtree(leaving, ignore_errors=True)
                target.rename(leaving)
            folder.rename(target)
            yield f"{folder} is now {target}"
        shutil.rmtree(leaving, ignore_errors=True)


def _to_be_moved(settings: Settings) -> Iterator[str]:
    """In an object store a folder has no name that could be changed."""
    for table in settings.names.tables:
        name = name_of_before(table)
        uri = settings.table_uri(f"{settings.names.source}/{name}")
        if name is not None and DeltaTable.is_deltatable(uri):
            yield f"move {uri} to {settings.table_uri(table)} before anything starts"


def _replace_history(settings: Settings) -> Iterator[str]:
    """The dimensions' history becomes the source's, which its writer makes from the topic."""
    uri = settings.table_uri(f"{settings.names.source}/{HISTORY_OF_BEFORE}")
    made = (
        f"{settings.names.history} takes its place: a stream that starts builds it from the topic"
    )
    folder = local_folder(uri)
    if folder is None:
        if DeltaTable.is_deltatable(uri):
            yield f"delete {uri} in the object store; {made}"
        return
    leaving = folder.with_name(f".{folder.name}.removed")
    if folder.exists():
        _forget_writer(settings, uri)
        folder.rename(leaving)
        yield f"{uri} is removed; {made}"
    if leaving.exists():
        shutil.rmtree(leaving)


def _lay_out_hourly(settings: Settings) -> Iterator[str]:
    """The hourly table's partitions become days, and its column origin has what is read of it.

    Its rows, and what its commits say, stay.
    """
    found = open_hourly(settings)
    if found is None or not is_of_before(found):
        return
    uri = settings.table_uri(settings.names.hourly_table)
    with sole_writer(settings, settings.names.hourly_table), translate_delta_errors(uri):
        table = open_table(uri)  # again: what a run wrote until now is in it
        time = plan_named(settings.project, settings.names.pipeline).time
        columns = dict.fromkeys(field.name for field in table.schema().fields)
        if has_hours_of_before(table):
            date, hour = HOURLY_PARTITIONS_OF_BEFORE
            del columns[hour]
            columns[date] = f"CAST({time} AS DATE) AS {HOURLY_PARTITION}"
        _write_again(table, columns, ORIGIN, HOURLY_PARTITION, f"ORDER BY {time}")
        days = len(table.partitions())
    yield f"{uri} has a partition for each of {days:,} days, and the columns of this version"


def _narrow_look_ups(settings: Settings) -> Iterator[str]:
    """Mode lookup's change log keeps of a look-up what is read; the history has the rest.

    Frontier and resume offset are application transactions: they stay with the table.
    """
    uri = settings.table_uri(settings.names.change_log(Mode.LOOKUP))
    if not DeltaTable.is_deltatable(uri):
        return
    table = open_table(uri)
    is_of_before = has_more_fields(table, LOOK_UP)
    with translate_delta_errors(uri):
        if is_of_before:
            table.alter.set_table_properties({APPEND_ONLY: "false"})
            columns = dict.fromkeys(field.name for field in table.schema().fields)
            _write_again(table, columns, LOOK_UP, CHANGE_PARTITION, "ORDER BY commit_lsn")
        if table.metadata().configuration.get(APPEND_ONLY) == "false":  # also after a kill
            table.alter.set_table_properties({APPEND_ONLY: "true"})
    if is_of_before:
        yield f"{uri} keeps of each look-up its snapshot and its position"


def _write_again(
    table: DeltaTable,
    columns: Mapping[str, str | None],
    narrowed: Mapping[str, str],
    partition: str,
    order: str,
) -> None:
    """All rows in one commit, with these columns; what says otherwise is SQL.

    narrowed: name and Delta type of a struct that keeps these fields alone.
    """
    [(name, kind)] = narrowed.items()
    selected = {column: text or f'"{column}"' for column, text in columns.items()}
    if name in selected:
        fields = ", ".join(f"'{one.name}', {name}['{one.name}']" for one in arrow_type(kind))
        selected[name] = f"CASE WHEN {name} IS NOT NULL THEN named_struct({fields}) END AS {name}"
    rows = f"SELECT {', '.join(selected.values())} FROM rows_of {order}"  # noqa: S608 - names only
    write_deltalake(
        table,
        run_query(rows, {"rows_of": table}),
        mode="overwrite",
        schema_mode="overwrite",
        partition_by=[partition],
        writer_properties=WRITER,
        commit_properties=CommitProperties(custom_metadata={SAME_ROWS: partition}),
        post_commithook_properties=NO_HOOKS,
    )


def _forget_writer(settings: Settings, uri: str) -> None:
    """What the query that wrote the table remembers, unless that is of another table already."""
    remembered = identity.read_remembered(settings, HISTORY)
    if remembered is None or remembered.generation == str(DeltaTable(uri).metadata().id):
        identity.identity_path(settings, HISTORY).unlink(missing_ok=True)
