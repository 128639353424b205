SELECT
    id,
    table_assignment_id,
    order_time,
    pizzas
FROM orders
WHERE order_time >= {start} AND order_time < {end}
