"""Brings the changes of a mode's change log into the published table."""

from collections.abc import Set
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from lockstep.pipeline.plan import Plan
from lockstep.pipeline.result import Result
from lockstep.pipeline.result_tables import PUBLISHED_PARTITIONS
from lockstep.publish import table as published_table
from lockstep.publish.queries import last_changes
from lockstep.publish.table import Mark, changes_schema_of
from lockstep.sources.delta import run_query

CHANGES_MAX = 100_000
"""Changes brought in by one commit, unless one transaction has more: bounds its memory."""
DELETES_LOOKED_UP_MAX = 1_000
"""Deleted rows whose hours are looked up; with more of them, all hours are read."""
_EVERYTHING = -1
"""Below the commit LSN of every change; rows of the initial snapshot have 0."""
_DATE, _HOUR = PUBLISHED_PARTITIONS
_NO_TIME = (None, None)
"""The hour of rows without a time: no hourly run takes them, and a stream may have them."""


def publish_changes(
    published: DeltaTable, log: DeltaTable, plan: Plan, feed: str, after: int, frontier: int
) -> int | None:
    """Bring in what comes after this commit LSN, in one commit; returns how far it is published.

    That may be before the frontier, when there is much: at the end of some transaction, always.
    None, and no commit, when no row changed up to the frontier.
    """
    through = _last_of_share(log, after, frontier)
    if through is None:
        return None
    changes = _last_changes(log, plan.result, feed, after, through).read_all()
    where = _where(published, plan, changes)
    mark = Mark(feed, through)
    if where is None:
        published_table.keep_rows(published, mark)
    else:
        published_table.merge_changes(published, plan.result, changes, where, mark)
    return through


def publish_all(published: DeltaTable, log: DeltaTable, result: Result, mark: Mark) -> None:
    """Make every row that the log knows what it is at the mark's LSN; the others stay."""
    changes = _last_changes(log, result, mark.feed, _EVERYTHING, mark.reached)
    published_table.merge_changes(published, result, changes, "", mark)


def _last_of_share(log: DeltaTable, after: int, frontier: int) -> int | None:
    """The commit LSN up to which there are at most CHANGES_MAX changes, or one transaction's."""
    query = f"""
        SELECT commit_lsn, COUNT(*) AS changes FROM change_log
        WHERE commit_lsn > {after} AND commit_lsn <= {frontier}
        GROUP BY commit_lsn ORDER BY commit_lsn
    """  # noqa: S608 - numbers only
    found = run_query(query, {"change_log": log}).read_all()
    if found.num_rows == 0:
        return None
    within = pc.sum(pc.less_equal(pc.cumulative_sum(found["changes"]), CHANGES_MAX)).as_py()
    if within == found.num_rows:
        return frontier
    return found["commit_lsn"][max(within - 1, 0)].as_py()


def _last_changes(
    log: DeltaTable, result: Result, feed: str, after: int, through: int
) -> pa.RecordBatchReader:
    found = run_query(last_changes(result, feed, after, through), {"change_log": log})
    schema = changes_schema_of(result)
    return pa.RecordBatchReader.from_batches(schema, (batch.cast(schema) for batch in found))


def _where(published: DeltaTable, plan: Plan, changes: pa.Table) -> str | None:
    """The hours of these rows, as a condition on `t`; empty for all, None when there are none.

    A row is in one hour for good, since its time never changes. A delete does not say which: that
    is looked up, and one that is not there is in none. Without a time all rows are asked.
    """
    if plan.result.time is None:
        return ""
    is_delete = pc.equal(changes["op"], "d")
    deleted = changes.filter(is_delete).select(plan.result.key)
    if deleted.num_rows > DELETES_LOOKED_UP_MAX:
        return ""
    hours = _hours_in(changes.filter(pc.invert(is_delete)))
    if deleted.num_rows:
        hours |= _hours_in(_hours_of(published, plan, deleted))
    return _condition(hours) if hours else None


def _hours_of(published: DeltaTable, plan: Plan, keys: pa.Table) -> pa.Table:
    these = plan.row_keys.condition(zip(*(one.to_pylist() for one in keys.columns), strict=True))
    query = f"SELECT {_DATE}, {_HOUR} FROM published WHERE {these}"  # noqa: S608 - literals
    return run_query(query, {"published": published}).read_all()


def _hours_in(rows: pa.Table) -> set[tuple]:
    distinct = rows.group_by([_DATE, _HOUR]).aggregate([])
    return set(zip(distinct[_DATE].to_pylist(), distinct[_HOUR].to_pylist(), strict=True))


def _condition(hours: Set[tuple]) -> str:
    """Of literals alone: then Delta knows from the partitions' names which files to read."""
    days = groupby(sorted(hours - {_NO_TIME}), key=lambda hour: hour[0])
    parts = [
        f"(t.{_DATE} = DATE '{day}' AND t.{_HOUR} IN ({', '.join(str(hour) for _, hour in found)}))"
        for day, found in days
    ]
    return " OR ".join(parts + [f"t.{_DATE} IS NULL"] * (_NO_TIME in hours))
