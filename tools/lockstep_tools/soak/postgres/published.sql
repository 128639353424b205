-- What the database itself published: for each order and transaction the ops and the last payload,
-- in the order's own sequence. Rows of one transaction share its commit's timestamp, also those
-- whose xmin is a subtransaction's; an order's lock lets no two transactions share it.
SELECT
    order_id,
    array_agg(op ORDER BY id) AS ops,
    (array_agg(payload ORDER BY id DESC))[1] AS payload,
    committed_at
FROM (
    SELECT
        id,
        order_id,
        op,
        payload,
        pg_xact_commit_timestamp(xmin) AS committed_at
    FROM orders_outbox
) AS outbox_row
GROUP BY order_id, committed_at
ORDER BY order_id, max(id)
