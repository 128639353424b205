-- DataFusion SQL: how many changes a change log holds, the last position, and how many raced.
SELECT
    COUNT(*) AS changes,
    MAX(commit_lsn) AS last_lsn,
    COUNT(*) FILTER (WHERE is_raced) AS raced
FROM change_log
