-- DataFusion SQL: orders that a change log holds more than once at one position.
SELECT
    order_id,
    commit_lsn,
    COUNT(*) AS changes
FROM change_log
GROUP BY
    order_id,
    commit_lsn
HAVING COUNT(*) > 1
ORDER BY
    commit_lsn,
    order_id
