"""Whether a stream's change log goes on where the published table ends; if not, it is refused.

LSNs alone do not say that: after `lockstep capture reset` the log begins with another snapshot, at
an LSN below or above what is published, and has not the changes between. Both tables know the
capture that their rows are of; nothing else is asked. What follows from an answer is step.py's.
"""

from deltalake import DeltaTable

from lockstep.pipeline.row_keys import RowKeys, quoted
from lockstep.publish.errors import FeedBehindError, FeedReplacedError
from lockstep.publish.table import Fed
from lockstep.sinks.append_log import capture_id_of, reached_of
from lockstep.sources.delta import run_query


def require_continued(published: DeltaTable, log: DeltaTable, row_keys: RowKeys, fed: Fed) -> int:
    """The log's frontier, at which it has all that is published and each change since.

    Raises FeedReplacedError when the log is of another capture, or, where the published table does
    not know its capture yet, when the log lacks what was published from it; FeedBehindError when it
    has not come that far.
    """
    frontier, capture_id = reached_of(log).frontier, capture_id_of(log)
    if frontier is not None and fed.capture_id not in (None, capture_id):
        why = f"what is published is of the capture {fed.capture_id}, the log of {capture_id}"
        raise FeedReplacedError(fed.feed, fed.reached, frontier, why)
    if frontier is None or frontier < fed.reached:
        raise FeedBehindError(fed.feed, fed.reached, frontier)
    if needs_capture_id(log, fed) and not _has_newest_change(published, log, row_keys, fed.feed):
        why = "the newest change that is published from it is not in it"
        raise FeedReplacedError(fed.feed, fed.reached, frontier, why)
    return frontier


def needs_capture_id(log: DeltaTable, fed: Fed) -> bool:
    """Whether the log knows its capture and the table, switched to it before, does not yet."""
    return fed.capture_id is None and capture_id_of(log) is not None


def _has_newest_change(
    published: DeltaTable, log: DeltaTable, row_keys: RowKeys, feed: str
) -> bool:
    """Whether the log has the newest change that the feed gave to the published table.

    Changes of a snapshot prove nothing: they have the position 0 in every capture.
    """
    newest = f"""
        SELECT {", ".join(map(quoted, row_keys.names))}, position FROM published
        WHERE fed_by = '{feed}' AND position > 0 ORDER BY position DESC LIMIT 1
    """  # noqa: S608 - names only
    found = run_query(newest, {"published": published}).read_all().to_pylist()
    if not found:
        return False
    *key, position = found[0].values()
    change = f"{row_keys.condition([tuple(key)])} AND commit_lsn = {position}"
    query = f"SELECT 1 FROM log WHERE {change} LIMIT 1"  # noqa: S608 - literals
    return run_query(query, {"log": log}).read_all().num_rows > 0
