-- The enriched orders of a window, as PostgreSQL itself joins them.
SELECT
    order_id,
    order_time,
    client_name,
    table_name,
    pizzas::text AS pizzas,
    row_xid,
    CASE
        WHEN current_setting('track_commit_timestamp')::boolean
            THEN pg_xact_commit_timestamp(row_xid::text::xid)
    END AS row_committed_at
FROM order_enriched_in
WHERE order_time >= {start} AND order_time < {end}
