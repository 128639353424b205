-- Every order of a window that differs between the hourly table and a stream, with what both say.
--
-- Relations: batch_rows, the window's rows of the hourly table; stream_changes, all changes that
-- the stream's change log has of the window's orders (those of either side).
-- Parameters: the snapshot that the hourly run read (cut: JSON with xmin, xmax, in_progress), those
-- that repairs read, each with its orders (repairs: JSON), and the window's bounds.
--
-- A change counts when its transaction is visible in the order's cut: the snapshot of its repair,
-- or of the hourly run. Rows of the initial snapshot (tx_id null) are older than any cut that is
-- compared. The last of an order's visible changes is its state at the cut.
WITH repaired AS (
    SELECT
        order_id,
        repair.cut
    FROM (
        SELECT
            FROM_JSON(
                '${repairs}',
                'ARRAY<STRUCT<order_ids: ARRAY<BIGINT>, cut: STRUCT<xmin: BIGINT, xmax: BIGINT, '
                'in_progress: ARRAY<BIGINT>>>>'
            ) AS repairs
        WHERE '${repairs}' <> '[]' -- without repairs the plan has no join with them
    )
        LATERAL VIEW EXPLODE(repairs) each_repair AS repair
        LATERAL VIEW EXPLODE(repair.order_ids) each_order AS order_id
),

changes_with_cut AS (
    SELECT
        stream_changes.*,
        COALESCE(
            repaired.cut,
            FROM_JSON('${cut}', 'STRUCT<xmin: BIGINT, xmax: BIGINT, in_progress: ARRAY<BIGINT>>')
        ) AS cut
    FROM stream_changes
    LEFT JOIN repaired ON stream_changes.order_id = repaired.order_id
),

changes AS (
    SELECT
        *,
        tx_id IS NULL
        OR tx_id < cut.xmin
        OR (tx_id < cut.xmax AND NOT ARRAY_CONTAINS(cut.in_progress, tx_id)) AS is_visible
    FROM changes_with_cut
),

streamed AS (
    SELECT
        order_id,
        MAX_BY(
            NAMED_STRUCT(
                'op', op,
                'order_time', order_time,
                'client_name', client_name,
                'table_name', table_name,
                'pizzas', pizzas,
                'tx_id', tx_id,
                'commit_lsn', commit_lsn,
                'committed_at', committed_at,
                'is_raced', is_raced,
                'look_up', look_up
            ),
            commit_lsn
        ) FILTER (WHERE is_visible) AS at_cut,
        MAX_BY(
            NAMED_STRUCT(
                'op', op,
                'order_time', order_time,
                'tx_id', tx_id,
                'commit_lsn', commit_lsn,
                'committed_at', committed_at
            ),
            commit_lsn
        ) FILTER (WHERE NOT is_visible) AS after_cut,
        ANY_VALUE(cut) AS cut,
        COUNT_IF(is_visible)
        - SIZE(COLLECT_SET(commit_lsn) FILTER (WHERE is_visible)) AS repeated_changes
    FROM changes
    GROUP BY order_id
),

paired AS (
    SELECT
        streamed.at_cut AS stream,
        streamed.after_cut,
        streamed.cut,
        COALESCE(batch_rows.order_id, streamed.order_id) AS order_id,
        IF(
            batch_rows.order_id IS NULL,
            NULL,
            NAMED_STRUCT(
                'order_time', batch_rows.order_time,
                'client_name', batch_rows.client_name,
                'table_name', batch_rows.table_name,
                'pizzas', batch_rows.pizzas,
                'origin', batch_rows.origin
            )
        ) AS batch,
        COALESCE(streamed.repeated_changes, 0) AS repeated_changes
    FROM batch_rows
    FULL OUTER JOIN streamed ON batch_rows.order_id = streamed.order_id
),

judged AS (
    SELECT
        *,
        paired.batch IS NOT NULL AS in_batch,
        -- What the hourly run has not may still be of another window, by the stream.
        paired.stream IS NOT NULL
        AND stream.op <> 'd'
        AND (
            paired.batch IS NOT NULL
            OR stream.order_time IS NULL
            OR (
                stream.order_time >= TIMESTAMP '${window_start}'
                AND stream.order_time < TIMESTAMP '${window_end}'
            )
        ) AS in_stream,
        FILTER(
            ARRAY(
                IF(stream.order_time <=> batch.order_time, NULL, 'order_time'),
                IF(stream.client_name <=> batch.client_name, NULL, 'client_name'),
                IF(stream.table_name <=> batch.table_name, NULL, 'table_name'),
                IF(stream.pizzas <=> batch.pizzas, NULL, 'pizzas')
            ),
            name -> name IS NOT NULL
        ) AS differing_columns
    FROM paired
),

classed AS (
    SELECT
        *,
        CASE
            WHEN
                judged.repeated_changes > 0 AND (judged.in_stream OR judged.in_batch)
                THEN 'duplicate_in_stream'
            WHEN judged.in_batch AND NOT judged.in_stream THEN 'missing_in_stream'
            WHEN judged.in_stream AND NOT judged.in_batch THEN 'missing_in_batch'
            WHEN judged.in_batch AND SIZE(judged.differing_columns) > 0
                -- A raced look-up or a drift, if explained.sql finds what explains it.
                THEN 'value_mismatch'
            WHEN
                judged.in_batch AND judged.after_cut IS NOT NULL
                OR after_cut.op <> 'd'
                AND after_cut.order_time >= TIMESTAMP '${window_start}'
                AND after_cut.order_time < TIMESTAMP '${window_end}'
                THEN 'changed_after_cut'
        END AS class
    FROM judged
)

SELECT
    order_id,
    class,
    in_batch,
    in_stream,
    batch,
    stream,
    after_cut,
    cut,
    repeated_changes,
    IF(in_batch AND in_stream, differing_columns, ARRAY()) AS differing_columns
FROM classed
WHERE in_batch OR in_stream OR class IS NOT NULL
