-- DataFusion SQL: every version of a table's rows that is valid after the frontier, or was the last
-- one at it. A row may be there twice after a crash: the same content, so either will do.
WITH versions AS (
    SELECT
        row_key,
        "row",
        commit_lsn,
        LEAD(commit_lsn) OVER (PARTITION BY row_key ORDER BY commit_lsn) AS next_lsn
    FROM history
    WHERE "table" = '${table}'
)

SELECT
    row_key,
    "row",
    commit_lsn
FROM versions
WHERE
    next_lsn IS NULL
    OR next_lsn > CAST('${frontier}' AS BIGINT)
ORDER BY
    row_key,
    commit_lsn
