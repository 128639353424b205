"""The SQL that finds rows to publish, made from a pipeline's result, for DataFusion. Pure.

The author's names are in quotes, whatever their characters. A name that is a query's own begins
with `commit_`, which the analysis refuses for a column of a result.
"""

from collections.abc import Iterable

from lockstep.model.modes import BATCH
from lockstep.pipeline.result import Result
from lockstep.pipeline.result_tables import PUBLISHED_PARTITIONS
from lockstep.pipeline.row_keys import quoted
from lockstep.publish.table import schema_of

_DATE, _HOUR = PUBLISHED_PARTITIONS


def last_changes(result: Result, feed: str, after: int, through: int) -> str:
    """The last change of each row with a commit LSN in (after, through], of `change_log`.

    Columns are as table.changes_schema_of; a delete has its row's key alone.
    """
    newest_first = f"ROW_NUMBER() OVER (PARTITION BY {_names(result.key)} ORDER BY commit_lsn DESC)"
    return f"""
        SELECT {_with_hour(result)}, '{feed}' AS fed_by, commit_lsn AS position, op
        FROM (
            SELECT {_names(result.columns)}, op, commit_lsn, {newest_first} AS commit_rank
            FROM change_log WHERE commit_lsn > {after} AND commit_lsn <= {through}
        ) AS ranked
        WHERE commit_rank = 1
    """  # noqa: S608 - names and numbers only


def hourly_rows(result: Result, where: str) -> str:
    """The rows of `hourly` for which a condition holds, as table.schema_of."""
    columns = f"{_with_hour(result)}, '{BATCH}' AS fed_by, cut_lsn AS position"
    return f"SELECT {columns} FROM hourly WHERE {where}"  # noqa: S608 - names and times only


def published_rows(result: Result, where: str) -> str:
    """The rows of `published` for which a condition holds, as they are."""
    return f"SELECT {_names(schema_of(result).names)} FROM published WHERE {where}"  # noqa: S608 - names and times only


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))


def _with_hour(result: Result) -> str:
    """The author's columns, and the partitions that are made of the time."""
    if result.time is None:
        return _names(result.columns)
    time = quoted(result.time)
    day = f"CAST({time} AS DATE) AS {_DATE}"
    hour = f"CAST(EXTRACT(HOUR FROM {time}) AS INT) AS {_HOUR}"
    return f"{_names(result.columns)}, {day}, {hour}"
