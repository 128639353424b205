-- DataFusion SQL: what a change log says the shop holds now: the last change of each order by
-- position, without deletes, of the orders from {first_order} to {last_order}.
WITH ranked AS (
    SELECT
        order_id,
        op,
        pizzas,
        ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY commit_lsn DESC) AS place
    FROM change_log
    WHERE
        order_id >= CAST('{first_order}' AS BIGINT)
        AND order_id <= CAST('{last_order}' AS BIGINT)
),

current_orders AS (
    SELECT
        order_id,
        pizzas
    FROM ranked
    WHERE
        place = 1
        AND op <> 'd'
),

items AS (
    SELECT UNNEST(pizzas) AS item
    FROM current_orders
)

SELECT
    (SELECT COUNT(*) FROM current_orders) AS orders,
    (SELECT COUNT(*) FROM items) AS pizzas,
    (SELECT SUM(item['price']) FROM items) AS revenue
