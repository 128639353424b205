"""The columns of a pipeline's Delta tables and of a source's history, in addition to the author's.

Name and Delta type of each. Times are UTC. The author's columns come first, in their order; the
query's analysis refuses one that has the name of one of these (analysis.RESERVED_OUTPUTS).
"""

from lockstep.pipeline.modes import Mode

HOURLY_COLUMNS = {
    "window_date": "date",
    "run_id": "string",
    "cut_snapshot": "string",
    "cut_lsn": "bigint",
}
"""Of the hourly table. window_date is the UTC day of the pipeline's time column; a pipeline without
one has no window_date either. The others are of the cut that the row was read at."""
HOURLY_PARTITION = "window_date"
ORIGIN = {"origin": "struct<tx_id:bigint,committed_at:timestamp>"}
"""What an hourly table whose rows are repaired has more: which row of the fact each was made of.

That is the transaction (64 bits) that wrote it, and when that committed; null when the database
does not track that.
"""
ORIGIN_WITH_CHILDREN = {"origin": "struct<tx_id:bigint,committed_at:timestamp,children:string>"}
"""The same of a pipeline with children: a digest of their rows' keys and transactions, too."""
CHANGE_COLUMNS = {
    "op": "string",
    "tx_id": "bigint",
    "commit_lsn": "bigint",
    "is_raced": "boolean",
    "committed_at": "timestamp",
    "captured_at": "timestamp",
    "seen_at": "timestamp",
    "written_at": "timestamp",
    "commit_date": "date",
}
"""Of a stream's change log: one row for each row of the result and transaction that changed it.

op is c, u or d; a delete has nulls in all of the author's columns but the key. tx_id has 64 bits
and is null in rows of a snapshot; of the connector's own commit_lsn is 0. Only a look-up marks rows
as raced: what it read may be of after the commit. committed_at is the database's clock, captured_at
Debezium's, seen_at and written_at the driver's.
"""
CHANGE_PARTITION = "commit_date"
LOOK_UP = {"look_up": "struct<snapshot:string,wal_lsn:bigint>"}
"""What mode lookup's change log has more than the others': what a raced row is proved by.

That is the snapshot (pg_snapshot) that the look-up read, and a position of the database's log at or
after the commit of all that this snapshot sees. Null in deletes.
"""
PUBLISHED_COLUMNS = {
    "order_date": "date",
    "order_hour": "int",
    "fed_by": "string",
    "position": "bigint",
}
"""Of the published table, the one that consumers read: one row for each row that there is now.

order_date and order_hour are the UTC day of the pipeline's time column and its hour in it; a
pipeline without one has neither. fed_by is the row's own feed, one of FEEDS. position is an LSN: of
the commit that the row is the state of, or, in rows of the hourly table, of the cut they were read
at. Only lockstep.publish writes it.
"""
PUBLISHED_PARTITIONS = ("order_date", "order_hour")
"""A merge of new rows opens the files of their hours alone."""
HISTORY_COLUMNS = {
    "table": "string",
    "row_key": "string",
    "op": "string",
    "row": "string",
    "tx_id": "bigint",
    "commit_lsn": "bigint",
    "committed_at": "timestamp",
}
"""A source's history: one row for each row of a table and transaction that changed it.

table is `schema.table`; row_key the text of the primary key (types.key_text); op is c, u or d. row
is the row after the transaction, as a JSON object of the columns in Debezium's own encoding, large
values that were not sent filled in; null of a delete. tx_id and commit_lsn are as in a change log.
The same (table, row_key, commit_lsn) may be there twice after a crash, with the same content.
"""
HISTORY_PARTITION = "table"


def change_columns(mode: str) -> dict[str, str]:
    """Those of a mode's change log."""
    return {**CHANGE_COLUMNS, **(LOOK_UP if mode == Mode.LOOKUP else {})}
