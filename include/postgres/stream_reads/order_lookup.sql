-- The enriched orders of a micro-batch, and how new what they were read from is: one statement, so
-- one snapshot.
--
-- A commit timestamp is null when PostgreSQL no longer keeps it (the row was frozen since): long ago.
-- is_whole: everything that the order names was there; a row deleted since leaves no timestamp.
WITH commits AS (
    SELECT
        orders.id AS order_id,
        pg_xact_commit_timestamp(orders.xmin) AS order_committed_at,
        greatest(
            pg_xact_commit_timestamp(orders.xmin),
            pg_xact_commit_timestamp(table_assignment.xmin),
            pg_xact_commit_timestamp(clients.xmin),
            pg_xact_commit_timestamp(tables.xmin),
            listed.newest_committed_at
        ) AS newest_committed_at,
        clients.id IS NOT NULL
        AND tables.id IS NOT NULL
        AND listed.known = cardinality(orders.pizzas) AS is_whole
    FROM orders
    LEFT JOIN table_assignment ON table_assignment.id = orders.table_assignment_id
    LEFT JOIN clients ON clients.id = table_assignment.client_id
    LEFT JOIN tables ON tables.id = table_assignment.table_id
    CROSS JOIN LATERAL (
        SELECT
            max(pg_xact_commit_timestamp(pizzas.xmin)) AS newest_committed_at,
            count(*) AS known
        FROM unnest(orders.pizzas) AS ordered (pizza_id)
        INNER JOIN pizzas ON pizzas.id = ordered.pizza_id
    ) AS listed
    WHERE orders.id = ANY(%(ids)s::bigint[])
)

SELECT
    commits.order_id,
    order_enriched_in.order_time,
    order_enriched_in.client_name,
    order_enriched_in.table_name,
    order_enriched_in.pizzas::text AS pizzas,
    commits.order_committed_at,
    commits.newest_committed_at,
    commits.is_whole
FROM commits
INNER JOIN order_enriched_in ON order_enriched_in.order_id = commits.order_id
WHERE order_enriched_in.order_id = ANY(%(ids)s::bigint[])
