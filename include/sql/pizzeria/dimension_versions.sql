-- DataFusion SQL: every version of a dimension's rows that is valid after the frontier, or was the
-- last one at it. A row may be there twice after a crash: the same content, so either will do.
WITH versions AS (
    SELECT
        dimension,
        id,
        op,
        name, -- noqa: RF04
        price,
        client_id,
        table_id,
        commit_lsn,
        LEAD(commit_lsn) OVER (PARTITION BY dimension, id ORDER BY commit_lsn) AS next_lsn
    FROM dimension_changes
    WHERE dimension = '${dimension}'
)

SELECT
    id,
    op,
    name,
    price,
    client_id,
    table_id,
    commit_lsn
FROM versions
WHERE
    next_lsn IS NULL
    OR next_lsn > CAST('${frontier}' AS BIGINT)
ORDER BY
    id,
    commit_lsn
