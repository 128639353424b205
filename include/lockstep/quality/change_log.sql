-- What the quality checks look at of a stream: a row of scalars for each change of a window's
-- rows. A delete has no time, so rows are found by the time of any change, and their changes by
-- key. Run by delta-rs (DataFusion); what is in braces is made of the result's columns.
--
-- Rows without a transaction are of a snapshot, which is the first commit of a change log: that of
-- the connector at ${snapshot_lsn}, a side snapshot at its own position.
-- is_after_earlier: rows come into the table in the order of written_at, those of one commit at
-- once. latency_seconds: null for rows of the initial snapshot, which there was no stream to write.
-- Epochs are subtracted, not times: of a duration date_part('epoch', ...) may drop the fraction.
WITH change_log AS (
    SELECT *
    FROM whole_log
    WHERE commit_lsn IS NULL OR ${up_to_frontier}
),

window_rows AS (
    SELECT DISTINCT ${key}
    FROM change_log
    WHERE ${in_window}
),

changes AS (
    SELECT
        ${key},
        change_log.op,
        change_log.commit_lsn,
        change_log.tx_id,
        change_log.is_raced,
        change_log.written_at,
        (
            change_log.committed_at IS NOT NULL
            AND change_log.captured_at IS NOT NULL
            AND change_log.seen_at IS NOT NULL
            AND change_log.written_at IS NOT NULL
        ) AS has_times,
        (
            change_log.committed_at IS NULL
            OR change_log.commit_date IS NOT DISTINCT FROM cast(change_log.committed_at AS DATE)
        ) AS is_in_its_partition,
        (
            coalesce(change_log.op <> 'd', TRUE)
            OR (${values_are_null})
        ) AS is_bare_delete,
        (
            date_part('epoch', change_log.written_at) - date_part('epoch', change_log.committed_at)
        ) AS seconds_from_commit,
        (
            date_part('epoch', change_log.written_at) - date_part('epoch', change_log.seen_at)
        ) AS work_seconds
    FROM change_log
    INNER JOIN window_rows ON ${same_key}
    WHERE (${has_key}) OR ${in_window}
)

SELECT
    ${key_names},
    commit_lsn,
    has_times,
    is_in_its_partition,
    is_bare_delete,
    seconds_from_commit,
    work_seconds,
    op,
    coalesce(is_raced, FALSE) AS is_raced,
    coalesce(
        commit_lsn >= lag(commit_lsn) OVER (
            PARTITION BY ${key_names}
            ORDER BY written_at, commit_lsn
        ),
        TRUE
    ) AS is_after_earlier,
    coalesce(
        CASE
            WHEN tx_id IS NULL THEN commit_lsn = first_lsn
            ELSE commit_lsn <> cast('${snapshot_lsn}' AS BIGINT)
        END,
        TRUE
    ) AS has_transaction,
    CASE WHEN tx_id IS NOT NULL THEN seconds_from_commit END AS latency_seconds
FROM changes
CROSS JOIN (SELECT min(commit_lsn) AS first_lsn FROM change_log) AS snapshot
