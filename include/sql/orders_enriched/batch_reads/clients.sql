-- Only what the window's orders name: an hour must not read every client there ever was.
SELECT
    id,
    name
FROM clients
WHERE
    id IN (
        SELECT table_assignment.client_id FROM orders
        INNER JOIN table_assignment ON table_assignment.id = orders.table_assignment_id
        WHERE orders.order_time >= {start} AND orders.order_time < {end}
    )
