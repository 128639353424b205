-- DataFusion SQL: what the hourly table holds for each hour of [start, end).
WITH orders_in_window AS (
    SELECT
        order_id,
        DATE_TRUNC('hour', order_time) AS hour,
        pizzas
    FROM orders_enriched__batch
    WHERE
        order_time >= TIMESTAMP '{start}'
        AND order_time < TIMESTAMP '{end}'
),

items AS (
    SELECT
        hour,
        UNNEST(pizzas) AS item
    FROM orders_in_window
),

orders_by_hour AS (
    SELECT
        hour,
        COUNT(*) AS orders
    FROM orders_in_window
    GROUP BY hour
),

items_by_hour AS (
    SELECT
        hour,
        COUNT(*) AS pizzas,
        SUM(item['price']) AS revenue
    FROM items
    GROUP BY hour
)

SELECT
    orders_by_hour.hour,
    orders_by_hour.orders,
    COALESCE(items_by_hour.pizzas, 0) AS pizzas,
    items_by_hour.revenue
FROM orders_by_hour
LEFT JOIN items_by_hour ON items_by_hour.hour = orders_by_hour.hour
ORDER BY orders_by_hour.hour
