SELECT
    id,
    table_assignment_id,
    order_time,
    pizzas,
    xmin::text::bigint AS row_xid,
    CASE
        WHEN current_setting('track_commit_timestamp')::boolean
            THEN pg_xact_commit_timestamp(xmin)
    END AS row_committed_at
FROM orders
WHERE order_time >= {start} AND order_time < {end}
