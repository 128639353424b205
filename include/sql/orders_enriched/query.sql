-- An order, with the names and prices that it was placed with: equal to PostgreSQL's view
-- order_enriched_in. The joins are plain: as of which moment they are is the library's business.
--
-- Nothing is dropped: what an order names and no table has becomes null. Pizzas keep the order's
-- own sequence and repetitions.
WITH seated AS (
    SELECT
        orders.id AS order_id,
        orders.order_time,
        clients.name AS client_name,
        tables.name AS table_name,
        orders.pizzas
    FROM orders
    LEFT JOIN table_assignment ON table_assignment.id = orders.table_assignment_id
    LEFT JOIN clients ON clients.id = table_assignment.client_id
    LEFT JOIN tables ON tables.id = table_assignment.table_id
),

listed AS (
    SELECT
        seated.order_id,
        seated.order_time,
        seated.client_name,
        seated.table_name,
        place,
        pizza_id
    FROM seated
        LATERAL VIEW OUTER POSEXPLODE(seated.pizzas) ordered AS place, pizza_id
)

SELECT
    listed.order_id,
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
    ) AS pizzas
FROM listed
LEFT JOIN pizzas ON pizzas.id = listed.pizza_id
GROUP BY
    listed.order_id,
    listed.order_time,
    listed.client_name,
    listed.table_name
