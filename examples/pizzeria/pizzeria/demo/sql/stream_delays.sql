-- DataFusion SQL: how long each new order of [start, end) took from the database's commit until it
-- could be read in a stream's change log; orders committed before {since} are left out.
SELECT
    DATE_TRUNC('hour', order_time) AS hour,
    order_time,
    committed_at,
    written_at
FROM change_log
WHERE
    op = 'c'
    AND order_time >= TIMESTAMP '{start}'
    AND order_time < TIMESTAMP '{end}'
    AND committed_at >= TIMESTAMP '{since}'
ORDER BY order_time
