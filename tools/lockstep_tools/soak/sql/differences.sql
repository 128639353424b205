-- DataFusion SQL: changes on which two change logs disagree, of those after the initial snapshot
-- and up to {frontier}; times apart. is_excused: only what a raced look-up may spoil differs.
WITH mine AS (
    SELECT *
    FROM change_log
    WHERE
        commit_lsn > 0
        AND commit_lsn <= CAST('{frontier}' AS BIGINT)
),

theirs AS (
    SELECT *
    FROM reference
    WHERE
        commit_lsn > 0
        AND commit_lsn <= CAST('{frontier}' AS BIGINT)
),

compared AS (
    SELECT
        COALESCE(mine.order_id, theirs.order_id) AS order_id,
        COALESCE(mine.commit_lsn, theirs.commit_lsn) AS commit_lsn,
        theirs.order_id IS NULL AS is_extra,
        mine.order_id IS NULL AS is_missing,
        COALESCE(mine.is_raced, FALSE) AS is_raced,
        mine.op IS DISTINCT FROM theirs.op AS op_differs,
        mine.tx_id IS DISTINCT FROM theirs.tx_id AS tx_id_differs,
        mine.order_time IS DISTINCT FROM theirs.order_time AS order_time_differs,
        mine.client_name IS DISTINCT FROM theirs.client_name AS client_name_differs,
        mine.table_name IS DISTINCT FROM theirs.table_name AS table_name_differs,
        mine.pizzas IS DISTINCT FROM theirs.pizzas AS pizzas_differ
    FROM mine
    FULL OUTER JOIN theirs
        ON
            mine.order_id = theirs.order_id
            AND mine.commit_lsn = theirs.commit_lsn
)

SELECT
    *,
    (
        is_raced
        AND NOT (is_extra OR is_missing OR op_differs OR tx_id_differs)
    ) AS is_excused
FROM compared
WHERE
    is_extra
    OR is_missing
    OR op_differs
    OR tx_id_differs
    OR order_time_differs
    OR client_name_differs
    OR table_name_differs
    OR pizzas_differ
ORDER BY
    commit_lsn,
    order_id
