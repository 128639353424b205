-- What the hourly run reads in `view` mode and the look-up stream asks for: one row an order.
-- pizzas is JSON, [{"pizza": name, "price": price}, …], in the order's own sequence and with its
-- repetitions; an id the menu does not know gives nulls. No order is dropped. The last three columns
-- are the order's own row: what it refers to, and the transaction that wrote it (32 bits). No job of
-- this version reads them; a view that is there already cannot lose columns.
CREATE OR REPLACE VIEW order_enriched_in AS
SELECT
    orders.id AS order_id,
    orders.order_time,
    clients.name AS client_name,
    tables.name AS table_name,
    (
        SELECT
            coalesce(
                json_agg(
                    json_build_object('pizza', pizzas.name, 'price', pizzas.price)
                    ORDER BY ordered.place
                ),
                '[]'::json
            )
        FROM unnest(orders.pizzas) WITH ORDINALITY AS ordered (pizza_id, place)
        LEFT JOIN pizzas ON pizzas.id = ordered.pizza_id
    ) AS pizzas,
    orders.table_assignment_id,
    orders.pizzas AS pizza_ids,
    orders.xmin::text::bigint AS row_xid
FROM orders
LEFT JOIN table_assignment ON table_assignment.id = orders.table_assignment_id
LEFT JOIN clients ON clients.id = table_assignment.client_id
LEFT JOIN tables ON tables.id = table_assignment.table_id;
