-- An order, with names and prices as they were when the order was committed: for the hourly run
-- that reads tables, and for the streams that join. Equal to PostgreSQL's view order_enriched_in.
--
-- Relations: orders, table_assignment, clients, tables, pizzas, each with valid_from and valid_to,
-- the commit LSNs between which a row was the truth, [valid_from, valid_to). Streams bind
-- histories; the hourly run binds one snapshot, valid always, and the conditions fold away.
--
-- Nothing is dropped: what an order names and nobody knows stays, as nulls. Pizzas keep the order's
-- own sequence and repetitions. orders.origin passes through: the row that the order was made of.
WITH seated AS (
    SELECT
        orders.id AS order_id,
        orders.valid_from,
        orders.order_time,
        clients.name AS client_name,
        tables.name AS table_name,
        orders.pizzas,
        orders.origin
    FROM orders
    LEFT JOIN table_assignment
        ON
            table_assignment.id = orders.table_assignment_id
            AND table_assignment.valid_from <= orders.valid_from
            AND table_assignment.valid_to > orders.valid_from
    LEFT JOIN clients
        ON
            clients.id = table_assignment.client_id
            AND clients.valid_from <= orders.valid_from
            AND clients.valid_to > orders.valid_from
    LEFT JOIN tables
        ON
            tables.id = table_assignment.table_id
            AND tables.valid_from <= orders.valid_from
            AND tables.valid_to > orders.valid_from
),

listed AS (
    SELECT
        seated.order_id,
        seated.valid_from,
        seated.order_time,
        seated.client_name,
        seated.table_name,
        seated.origin,
        place,
        pizza_id
    FROM seated
        LATERAL VIEW OUTER POSEXPLODE(seated.pizzas) ordered AS place, pizza_id
)

SELECT
    listed.order_id,
    listed.valid_from,
    listed.order_time,
    listed.client_name,
    listed.table_name,
    TRANSFORM(
        ARRAY_SORT(
            COLLECT_LIST(
                NAMED_STRUCT('place', listed.place, 'pizza', pizzas.name, 'price', pizzas.price)
            ) FILTER (WHERE listed.place IS NOT NULL)
        ),
        item -> NAMED_STRUCT('pizza', item.pizza, 'price', item.price)
    ) AS pizzas,
    ANY_VALUE(listed.origin) AS origin
FROM listed
LEFT JOIN pizzas
    ON
        pizzas.id = listed.pizza_id
        AND pizzas.valid_from <= listed.valid_from
        AND pizzas.valid_to > listed.valid_from
GROUP BY
    listed.order_id,
    listed.valid_from,
    listed.order_time,
    listed.client_name,
    listed.table_name
