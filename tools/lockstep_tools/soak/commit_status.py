"""Whether a transaction is committed, by what the database says once it answers again."""

import psycopg


def committed_ids(connection: psycopg.Connection, tx_ids: list[int]) -> set[int]:
    """Those of transactions that are committed; an id has 64 bits.

    A killed server may have given ids of which nothing reached its log. Until it gives them again
    they lie beyond its snapshot, and pg_xact_status fails on them as "in the future".
    """
    query = (
        "SELECT id FROM unnest(%s::bigint[]) AS id "
        "WHERE CASE WHEN id::text::xid8 < pg_snapshot_xmax(pg_current_snapshot()) "
        "THEN pg_xact_status(id::text::xid8) = 'committed' ELSE false END"
    )
    return {tx_id for (tx_id,) in connection.execute(query, [tx_ids])}
