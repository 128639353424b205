-- Only what the window's orders name: an hour must not read years of seatings.
SELECT
    id,
    client_id,
    table_id
FROM table_assignment
WHERE
    id IN (
        SELECT table_assignment_id FROM orders
        WHERE order_time >= {start} AND order_time < {end}
    )
