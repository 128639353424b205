-- DataFusion SQL: positions with several transactions, or none, and transactions at several
-- positions; rows of the initial snapshot have neither.
WITH changes AS (
    SELECT
        commit_lsn,
        tx_id
    FROM change_log
    WHERE
        commit_lsn > 0
        OR tx_id IS NOT NULL
)

SELECT
    commit_lsn,
    COUNT(DISTINCT tx_id) AS transactions,
    MIN(tx_id) AS tx_id
FROM changes
GROUP BY commit_lsn
HAVING COUNT(DISTINCT tx_id) <> 1
UNION ALL
SELECT
    MIN(commit_lsn) AS commit_lsn,
    COUNT(DISTINCT commit_lsn) AS transactions,
    tx_id
FROM changes
WHERE tx_id IS NOT NULL
GROUP BY tx_id
HAVING COUNT(DISTINCT commit_lsn) > 1
