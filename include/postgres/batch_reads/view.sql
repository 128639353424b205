-- The enriched orders of a window, as PostgreSQL itself joins them.
SELECT
    order_id,
    order_time,
    client_name,
    table_name,
    pizzas::text AS pizzas
FROM order_enriched_in
WHERE order_time >= {start} AND order_time < {end}
