"""One repair, step by step.

The order of the steps is the repair's guarantee, as with the hourly run: the lock first, the
snapshot before the marker, and one commit at the end.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from lockstep.cdc.cuts import Cut, DatabaseSnapshot, exported_snapshot, mark_cut
from lockstep.cdc.run_commits import RepairCommit
from lockstep.model.window import Window
from lockstep.pipeline.names import cut_prefix
from lockstep.pipeline.plan import plan_named
from lockstep.pipeline.result import Result
from lockstep.pipeline.result_tables import HOURLY_PARTITION
from lockstep.pipeline.row_keys import RowKeys, quoted
from lockstep.repair.changed_rows import ChangedRow, How
from lockstep.repair.errors import RepairRefusedError
from lockstep.repair.plan import look
from lockstep.settings import Settings
from lockstep.sinks.delta_rows import replace_rows
from lockstep.sinks.local_lakehouse import sole_writer
from lockstep.sinks.window_conditions import inside_for_write
from lockstep.sources.delta import open_table
from lockstep.sources.origin import origin_value
from lockstep.sources.postgres import connect_to
from lockstep.sources.source_database import reader
from lockstep.sources.window_rows import DatabaseRow

_NAMED = 5
"""Rows that an error names."""
_INTEGERS = ("smallint", "int", "bigint")


def repair_window(
    settings: Settings, window: Window, approved: Mapping[str, str], approved_by: str
) -> RepairCommit | None:
    """Make the hourly table's approved rows what the database has of them now.

    approved: by the text of each row's key the digest of what was approved (`Plan.digests`).

    Other rows stay as they are. Those that are in the table as the database has them are passed
    over, so that repeating a repair changes nothing: then there is no commit, and None is returned.
    A failure, whatever it is, leaves the table as it was. Raises RepairRefusedError when a row is
    not any more as it was approved, WriterBusyError, PipelineError, and what `look` raises.
    """
    plan = plan_named(settings.project, settings.names.pipeline)
    # Step 1: be the only writer, with room to write.
    # Step 2: export the snapshot that everything below reads.
    with (
        sole_writer(settings, settings.names.hourly_table),
        connect_to(reader(settings)) as exporting,
        exported_snapshot(exporting) as exported,
    ):
        # Step 3: what still differs of the approved rows, and nothing else.
        table = open_table(settings.table_uri(settings.names.hourly_table))
        seen = look(table, plan, window, exported)
        chosen = _as_approved(seen.changed, approved, plan.row_keys)
        if not chosen:
            return None
        # Step 4: mark the cut in the database's log.
        with connect_to(reader(settings)) as marking:
            cut = mark_cut(marking, exported, str(uuid.uuid4()), cut_prefix(plan.source))
        # Step 5: replace the rows in one commit.
        commit = RepairCommit(
            window=window,
            repaired_run_id=seen.written.run.cut.run_id,
            row_keys=tuple(key_in_commit(one.key, plan.row_keys) for one in chosen),
            orders_after=seen.rows.num_rows + _more(chosen),
            approved_by=approved_by,
            cut=cut,
        )
        rows = [hourly_row(one.after, plan.result, cut) for one in chosen if one.after is not None]
        keys = plan.row_keys.condition(plan.row_keys.read(one.key) for one in chosen)
        replaced = f"{inside_for_write(window, quoted(plan.time))} AND {keys}"
        replace_rows(table, rows, replaced, commit.as_json())
    return commit


def _as_approved(
    changed: Iterable[ChangedRow], approved: Mapping[str, str], keys: RowKeys
) -> Sequence[ChangedRow]:
    chosen = [one for one in changed if one.key in approved]
    again = [keys.shown(one.key) for one in chosen if one.digest != approved[one.key]]
    if again:
        named = ", ".join(again[:_NAMED]) + (", …" if len(again) > _NAMED else "")
        raise RepairRefusedError(
            f"{len(again):,} of {len(approved):,} rows ({named}) are not any more as they were "
            "shown and approved; nothing was written: look at them again"
        )
    return chosen


def _more(chosen: Iterable[ChangedRow]) -> int:
    """By how many rows the window grows."""
    return sum({How.NEW: 1, How.CANCELLED: -1}.get(one.how, 0) for one in chosen)


def key_in_commit(text: str, keys: RowKeys) -> int | str:
    """A key as RepairCommit has it: an integer where the key is one, else its text."""
    values = keys.read(text)
    is_integer = len(values) == 1 and keys.types[0].delta in _INTEGERS
    return values[0] if is_integer else text


def hourly_row(row: DatabaseRow, result: Result, cut: Cut) -> dict[str, Any]:
    """A row of the hourly table at a cut, as the hourly run makes it in Spark."""
    columns = {**dict(zip(result.key, row.key, strict=True)), **row.values}
    at = columns[result.time]
    return {
        **columns,
        HOURLY_PARTITION: at.date() if isinstance(at, datetime) else at,  # the connection is in UTC
        "run_id": cut.run_id,
        "cut_snapshot": cut.snapshot,
        "cut_lsn": cut.marker_lsn,
        "origin": origin_value(row.origin, DatabaseSnapshot.parse(cut.snapshot)),
    }
