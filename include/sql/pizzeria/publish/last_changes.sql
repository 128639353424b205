-- DataFusion SQL: the last change of each order with a commit LSN in ({after}, {through}], with the
-- columns of the published table. A delete has its order's id alone.
WITH ranked AS (
    SELECT
        order_id,
        order_time,
        client_name,
        table_name,
        pizzas,
        op,
        commit_lsn,
        ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY commit_lsn DESC) AS newest_first
    FROM change_log
    WHERE
        commit_lsn > CAST('{after}' AS BIGINT)
        AND commit_lsn <= CAST('{through}' AS BIGINT)
)

SELECT
    order_id,
    order_time,
    client_name,
    table_name,
    pizzas,
    CAST(order_time AS DATE) AS order_date,
    CAST(EXTRACT(HOUR FROM order_time) AS INT) AS order_hour,
    '{feed}' AS fed_by,
    commit_lsn AS position,
    op
FROM ranked
WHERE newest_first = 1
