-- DataFusion SQL: when each order of [start, end) was taken, with the hour it belongs to.
SELECT
    DATE_TRUNC('hour', order_time) AS hour,
    order_time
FROM orders_enriched__batch
WHERE
    order_time >= TIMESTAMP '{start}'
    AND order_time < TIMESTAMP '{end}'
ORDER BY order_time
