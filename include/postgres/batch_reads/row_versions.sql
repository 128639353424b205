-- Which version of each order's row the snapshot sees: the transaction that wrote it (32 bits).
SELECT
    id AS order_id,
    xmin::text::bigint AS row_xid
FROM orders
WHERE order_time >= {start} AND order_time < {end}
