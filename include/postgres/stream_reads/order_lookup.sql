-- The enriched orders of a micro-batch, how new what they were read from is, and the snapshot that
-- was read: one statement, so one snapshot. A row for each id; an order that is not there has nulls.
--
-- wal_lsn is read after the snapshot was taken: what the snapshot sees was committed at or before it.
-- A commit timestamp is null when PostgreSQL no longer keeps it (the row was frozen since): long ago.
-- is_whole: everything that the order names was there; a row deleted since leaves no timestamp.
WITH moment AS MATERIALIZED (
    SELECT
        pg_current_snapshot()::text AS snapshot,
        (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint AS wal_lsn
),

commits AS (
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
    commits.is_whole,
    moment.snapshot,
    moment.wal_lsn
FROM commits
INNER JOIN order_enriched_in ON order_enriched_in.order_id = commits.order_id
CROSS JOIN moment
WHERE order_enriched_in.order_id = ANY(%(ids)s::bigint[])
UNION ALL
-- What was not there; by an outer join it would cost a nested loop over all that was asked.
SELECT
    asked.order_id,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    moment.snapshot,
    moment.wal_lsn
FROM unnest(%(ids)s::bigint[]) AS asked (order_id)
CROSS JOIN moment
WHERE asked.order_id NOT IN (SELECT commits.order_id FROM commits)
