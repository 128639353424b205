"""Brings the changes of a mode's change log into the published table."""

from collections.abc import Collection
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from lockstep.pizzeria import ORDERS_ENRICHED_PARTITIONS, PIPELINE
from lockstep.project import MARKER, read_project_file
from lockstep.publish import table as published_table
from lockstep.publish.table import CHANGES_SCHEMA, Mark
from lockstep.sources.delta import run_query

CHANGES_MAX = 100_000
"""Changes brought in by one commit, unless one transaction has more: bounds its memory."""
DELETES_LOOKED_UP_MAX = 1_000
"""Cancelled orders whose hours are looked up; with more of them, all hours are read."""
_EVERYTHING = -1
"""Below the commit LSN of every change; rows of the initial snapshot have 0."""
_SQL = MARKER / PIPELINE / "publish" / "last_changes.sql"
_DATE, _HOUR = ORDERS_ENRICHED_PARTITIONS


def publish_changes(
    published: DeltaTable, log: DeltaTable, feed: str, after: int, frontier: int
) -> int | None:
    """Bring in what comes after this commit LSN, in one commit; returns how far it is published.

    That may be before the frontier, when there is much: at the end of some transaction, always.
    None, and no commit, when no order changed up to the frontier.
    """
    through = _last_of_share(log, after, frontier)
    if through is None:
        return None
    changes = _last_changes(log, feed, after, through).read_all()
    where = _where(published, changes)
    mark = Mark(feed, through)
    if where is None:
        published_table.keep_rows(published, mark)
    else:
        published_table.merge_changes(published, changes, where, mark)
    return through


def publish_all(published: DeltaTable, log: DeltaTable, mark: Mark) -> None:
    """Make every order that the log knows what it is at the mark's LSN; the others stay."""
    changes = _last_changes(log, mark.feed, _EVERYTHING, mark.reached)
    published_table.merge_changes(published, changes, "", mark)


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


def _last_changes(log: DeltaTable, feed: str, after: int, through: int) -> pa.RecordBatchReader:
    sql = read_project_file(_SQL).format(after=after, through=through, feed=feed)
    found = run_query(sql, {"change_log": log})
    return pa.RecordBatchReader.from_batches(
        CHANGES_SCHEMA, (batch.cast(CHANGES_SCHEMA) for batch in found)
    )


def _where(published: DeltaTable, changes: pa.Table) -> str | None:
    """The hours of these orders, as a condition on `t`; empty for all, None when there are none.

    An order is in one hour for good, since its time never changes. A delete does not say which:
    that is looked up, and one that is not there is in none.
    """
    is_delete = pc.equal(changes["op"], "d")
    deleted = changes.filter(is_delete)["order_id"].to_pylist()
    if len(deleted) > DELETES_LOOKED_UP_MAX:
        return ""
    hours = _hours_in(changes.filter(pc.invert(is_delete)))
    if deleted:
        hours |= _hours_in(_rows_of(published, deleted))
    return _condition(hours) if hours else None


def _rows_of(published: DeltaTable, order_ids: Collection[int]) -> pa.Table:
    ids = ", ".join(map(str, order_ids))
    query = f"SELECT {_DATE}, {_HOUR} FROM published WHERE order_id IN ({ids})"  # noqa: S608 - numbers
    return run_query(query, {"published": published}).read_all()


def _hours_in(rows: pa.Table) -> set[tuple]:
    distinct = rows.group_by([_DATE, _HOUR]).aggregate([])
    return set(zip(distinct[_DATE].to_pylist(), distinct[_HOUR].to_pylist(), strict=True))


def _condition(hours: Collection[tuple]) -> str:
    """Of literals alone: then Delta knows from the partitions' names which files to read."""
    days = groupby(sorted(hours), key=lambda hour: hour[0])
    return " OR ".join(
        f"(t.{_DATE} = DATE '{day}' AND t.{_HOUR} IN ({', '.join(str(hour) for _, hour in found)}))"
        for day, found in days
    )
