"""A pipeline's result as rows of its hourly table: what it must be, and what is added to it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lockstep.batch.errors import ResultRefusedError
from lockstep.cdc.cuts import Cut, DatabaseSnapshot
from lockstep.enrich.plans import evaluated
from lockstep.model.window import Window
from lockstep.pipeline.names import quoted, text_literal
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.query.at import Rewritten
from lockstep.pipeline.result_tables import HOURLY_PARTITION
from lockstep.pipeline.row_keys import named
from lockstep.sinks.hourly_table import columns_of
from lockstep.sinks.window_conditions import of_time
from lockstep.sources.origin import ROW_XID, origin_column, origin_reads_names
from lockstep.sources.slot_counts import CountedRows
from lockstep.sources.source_tables import BROADCAST_ROWS_MAX

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_TIMES = ("timestamp", "date")


def hourly_columns(plan: Plan, result: "StructType") -> dict[str, str]:
    """The type of each column of the pipeline's hourly table, in their order.

    result: at least the author's columns. Raises ResultRefusedError for a time that is no time.
    """
    columns = {name: result[name].dataType.simpleString() for name in plan.outputs}
    if plan.time is not None and columns[plan.time] not in _TIMES:
        raise ResultRefusedError(
            f"pipeline {plan.name}: `time` is {plan.time}, which is {columns[plan.time]} and no "
            "time: name a timestamp or date, or CAST it in the query"
        )
    return columns_of(plan, columns)


def with_read_origins(rows: "DataFrame", facts: CountedRows, plan: Plan) -> "DataFrame":
    """The rows of the result with what was read of each one's fact (sources/origin.py).

    As they are where the facts have none of that.
    """
    from pyspark.sql import functions as F  # noqa: N812

    if ROW_XID not in facts.rows.columns:
        return rows
    keys = (
        f"{quoted(column)} AS {quoted(name)}"
        for column, name in zip(plan.fact.key, plan.key, strict=True)
    )
    origins = facts.rows.selectExpr(*keys, *origin_reads_names(plan))
    if facts.count is not None and facts.count <= BROADCAST_ROWS_MAX:
        # Else both sides are exchanged and sorted, for JDBC says nothing of sizes.
        origins = F.broadcast(origins)
    return rows.join(origins, list(plan.key), "left")


def with_origin(rows: "DataFrame", plan: Plan, cut: Cut) -> "DataFrame":
    """The rows with the column `origin`; null where nothing was read of the fact's row."""
    if ROW_XID not in (columns := rows.columns):
        return rows.selectExpr("*", f"CAST(NULL AS {plan.origin_columns['origin']}) AS origin")
    others = (quoted(name) for name in columns if name not in origin_reads_names(plan))
    return rows.selectExpr(*others, origin_column(DatabaseSnapshot.parse(cut.snapshot), plan))


def in_window(rows: "DataFrame", plan: Plan, window: Window | None) -> "DataFrame":
    """The rows whose time is in the window; all without one."""
    return rows.filter(_of(plan, window))


def require_sound(
    plan: Plan, rows: "DataFrame", window: Window | None, rewritten: Rewritten
) -> int:
    """How many of the rows are in the window.

    Raises ResultRefusedError for two rows of one key, or for rows without a time.

    This evaluates the query; QueryRefusedError, with the place in query.sql, when it fails over a
    value.
    """
    with evaluated(rewritten):
        rows_max, key, without_time, count = _counted(plan, rows, window)
    if without_time:
        raise ResultRefusedError(
            f"pipeline {plan.name}: {without_time:,} rows of the result have no {plan.time}, so "
            "that no window holds them: let the query give each row a time (COALESCE)"
        )
    require_one_row(plan, rows_max, key)
    return count


def require_one_row(plan: Plan, rows_max: int, key: tuple) -> None:
    """rows_max: the most rows of one key, and that key. Raises ResultRefusedError."""
    if rows_max > 1:
        raise ResultRefusedError(
            f"pipeline {plan.name}: the result has {rows_max} rows of the key "
            f"{named(plan.key, key)}, and a key is of one row: see which JOIN finds several rows"
        )


def collected_if_sound(
    rows: "DataFrame", plan: Plan, window: Window, facts: int, rewritten: Rewritten
) -> "pa.Table | None":
    """The rows in this process; None unless they are one of a key, and of the window.

    facts: how many the window has, none of which makes two rows, so that no more are fetched than
    show that one does. Raises QueryRefusedError as require_sound.
    """
    import pyarrow.compute as pc

    with evaluated(rewritten):
        found = rows.limit(facts + 1).toArrow()
    if found.num_rows > facts or found.group_by(list(plan.key)).aggregate([]).num_rows < len(found):
        return None
    times = found[plan.time]
    if times.null_count:
        return None
    within = pc.min_max(times).as_py()
    is_inside = not len(found) or window.start <= within["min"] <= within["max"] < window.end
    return found if is_inside else None


def _of(plan: Plan, window: Window | None) -> str:
    return "true" if window is None or plan.time is None else of_time(window, quoted(plan.time))


def _counted(plan: Plan, rows: "DataFrame", window: Window | None) -> tuple[int, tuple, int, int]:
    """The most rows of one key, that key, how many have no time, how many are in the window."""
    from pyspark.sql import functions as F  # noqa: N812

    no_time = "false" if plan.time is None else f"{quoted(plan.time)} IS NULL"
    key = [f"k{place}" for place in range(len(plan.key))]
    marked = rows.select(
        *(F.col(quoted(name)).alias(short) for name, short in zip(plan.key, key, strict=True)),
        F.expr(no_time).alias("no_time"),
        F.expr(_of(plan, window)).alias("inside"),
    )
    keys = marked.groupBy(key).agg(
        F.count("*").alias("rows"),
        F.count_if("no_time").alias("no_time"),
        F.count_if("inside").alias("inside"),
    )
    most, found, *counts = keys.agg(
        F.max("rows"), F.max_by(F.struct(*key), "rows"), F.sum("no_time"), F.sum("inside")
    ).first()
    return most or 0, found or (), *(count or 0 for count in counts)


def with_cut(rows: "DataFrame", plan: Plan, columns: Mapping[str, str], cut: Cut) -> "DataFrame":
    """The rows with all columns of the hourly table, in their order."""
    added = {
        "run_id": text_literal(cut.run_id),
        "cut_snapshot": text_literal(cut.snapshot),
        "cut_lsn": f"{cut.marker_lsn}L",
    }
    if plan.time is not None:
        added[HOURLY_PARTITION] = f"to_date({quoted(plan.time)})"
    return rows.selectExpr(
        *(f"{added.get(name, quoted(name))} AS {quoted(name)}" for name in columns)
    )
