-- Of orders that both sides have with other values: do the dimensions' changes between the order's
-- commit and the cut explain every differing column, and which are they?
--
-- Relations: suspects (of differences.sql: order_id, batch, stream, cut, differing_columns), and
-- dimension_changes, the dimensions' history. Each order has a cut of its own.
--
-- A column is explained when the stream's value is the one that the dimensions held at the order's
-- commit, and the hourly table's the one that they held at the cut, for the rows that the order
-- itself refers to (batch.origin).
WITH versions AS (
    SELECT
        dimension,
        id,
        IF(op = 'd', NULL, name) AS name, -- noqa: RF04
        IF(op = 'd', NULL, price) AS price,
        IF(op = 'd', NULL, client_id) AS client_id,
        IF(op = 'd', NULL, table_id) AS table_id,
        tx_id,
        commit_lsn,
        committed_at
    FROM dimension_changes
),

orders_in_question AS (
    SELECT
        suspects.order_id,
        stream.commit_lsn AS order_lsn,
        cut,
        batch.origin.table_assignment_id AS assignment_id,
        batch.origin.pizza_ids
    FROM suspects
),

seat_versions AS (
    SELECT
        orders_in_question.order_id,
        orders_in_question.order_lsn,
        orders_in_question.cut,
        orders_in_question.assignment_id,
        versions.client_id,
        versions.table_id,
        versions.commit_lsn,
        NAMED_STRUCT('tx_id', versions.tx_id, 'committed_at', versions.committed_at) AS by_change,
        versions.commit_lsn <= orders_in_question.order_lsn AS is_at_commit,
        versions.tx_id IS NULL
        OR versions.tx_id < cut.xmin
        OR (versions.tx_id < cut.xmax AND NOT ARRAY_CONTAINS(cut.in_progress, versions.tx_id))
            AS is_at_cut
    FROM orders_in_question
    LEFT JOIN versions
        ON
            versions.dimension = 'table_assignment'
            AND orders_in_question.assignment_id = versions.id
),

seated AS (
    SELECT
        order_id,
        order_lsn,
        assignment_id,
        ANY_VALUE(cut) AS cut,
        MAX_BY(client_id, commit_lsn) FILTER (WHERE is_at_commit) AS client_at_commit,
        MAX_BY(client_id, commit_lsn) FILTER (WHERE is_at_cut) AS client_at_cut,
        MAX_BY(table_id, commit_lsn) FILTER (WHERE is_at_commit) AS table_at_commit,
        MAX_BY(table_id, commit_lsn) FILTER (WHERE is_at_cut) AS table_at_cut,
        MAX_BY(by_change, commit_lsn) FILTER (WHERE is_at_cut <> is_at_commit) AS by_change
    FROM seat_versions
    GROUP BY order_id, order_lsn, assignment_id
),

referred AS (
    SELECT
        order_id,
        order_lsn,
        cut,
        'clients' AS dimension,
        0 AS place,
        id,
        id <=> client_at_commit AS is_of_commit,
        id <=> client_at_cut AS is_of_cut
    FROM seated
        LATERAL VIEW
        EXPLODE(ARRAY_DISTINCT(ARRAY(client_at_commit, client_at_cut))) client AS id
    UNION ALL
    SELECT
        order_id,
        order_lsn,
        cut,
        'tables',
        0,
        id,
        id <=> table_at_commit,
        id <=> table_at_cut
    FROM seated
        LATERAL VIEW
        EXPLODE(ARRAY_DISTINCT(ARRAY(table_at_commit, table_at_cut))) dining_table AS id
    UNION ALL
    SELECT
        order_id,
        order_lsn,
        cut,
        'pizzas',
        place,
        CAST(pizza_id AS BIGINT),
        TRUE,
        TRUE
    FROM orders_in_question
        LATERAL VIEW POSEXPLODE(pizza_ids) ordered AS place, pizza_id
),

referred_versions AS (
    SELECT
        referred.order_id,
        referred.dimension,
        referred.place,
        referred.id,
        referred.is_of_commit,
        referred.is_of_cut,
        versions.name,
        versions.price,
        versions.commit_lsn,
        NAMED_STRUCT('tx_id', versions.tx_id, 'committed_at', versions.committed_at) AS by_change,
        versions.commit_lsn <= referred.order_lsn AS is_at_commit,
        versions.tx_id IS NULL
        OR versions.tx_id < cut.xmin
        OR (versions.tx_id < cut.xmax AND NOT ARRAY_CONTAINS(cut.in_progress, versions.tx_id))
            AS is_at_cut
    FROM referred
    LEFT JOIN versions
        ON referred.dimension = versions.dimension AND referred.id = versions.id
),

resolved AS (
    SELECT
        order_id,
        dimension,
        place,
        id,
        is_of_commit,
        is_of_cut,
        MAX_BY(name, commit_lsn) FILTER (WHERE is_at_commit) AS name_at_commit,
        MAX_BY(price, commit_lsn) FILTER (WHERE is_at_commit) AS price_at_commit,
        MAX_BY(name, commit_lsn) FILTER (WHERE is_at_cut) AS name_at_cut,
        MAX_BY(price, commit_lsn) FILTER (WHERE is_at_cut) AS price_at_cut,
        MAX_BY(by_change, commit_lsn) FILTER (WHERE is_at_cut <> is_at_commit) AS by_change
    FROM referred_versions
    GROUP BY order_id, dimension, place, id, is_of_commit, is_of_cut
),

told AS (
    SELECT
        order_id,
        dimension,
        place,
        is_of_commit,
        is_of_cut,
        name_at_commit,
        price_at_commit,
        name_at_cut,
        price_at_cut,
        FILTER(
            ARRAY(
                IF(
                    is_of_commit AND is_of_cut AND NOT name_at_commit <=> name_at_cut,
                    NAMED_STRUCT(
                        'table', dimension,
                        'id', id,
                        'column', 'name',
                        'from', name_at_commit,
                        'to', name_at_cut,
                        'tx_id', by_change.tx_id,
                        'committed_at', by_change.committed_at
                    ),
                    NULL
                ),
                IF(
                    is_of_commit AND is_of_cut AND NOT price_at_commit <=> price_at_cut,
                    NAMED_STRUCT(
                        'table', dimension,
                        'id', id,
                        'column', 'price',
                        'from', CAST(price_at_commit AS STRING),
                        'to', CAST(price_at_cut AS STRING),
                        'tx_id', by_change.tx_id,
                        'committed_at', by_change.committed_at
                    ),
                    NULL
                )
            ),
            change -> change IS NOT NULL
        ) AS changes
    FROM resolved
    UNION ALL
    SELECT
        order_id,
        'table_assignment',
        0,
        TRUE,
        TRUE,
        NULL,
        NULL,
        NULL,
        NULL,
        FILTER(
            ARRAY(
                IF(
                    client_at_commit <=> client_at_cut,
                    NULL,
                    NAMED_STRUCT(
                        'table', 'table_assignment',
                        'id', assignment_id,
                        'column', 'client_id',
                        'from', CAST(client_at_commit AS STRING),
                        'to', CAST(client_at_cut AS STRING),
                        'tx_id', by_change.tx_id,
                        'committed_at', by_change.committed_at
                    )
                ),
                IF(
                    table_at_commit <=> table_at_cut,
                    NULL,
                    NAMED_STRUCT(
                        'table', 'table_assignment',
                        'id', assignment_id,
                        'column', 'table_id',
                        'from', CAST(table_at_commit AS STRING),
                        'to', CAST(table_at_cut AS STRING),
                        'tx_id', by_change.tx_id,
                        'committed_at', by_change.committed_at
                    )
                )
            ),
            change -> change IS NOT NULL
        )
    FROM seated
),

expected AS (
    SELECT
        order_id,
        MAX(IF(dimension = 'clients' AND is_of_commit, name_at_commit, NULL)) AS client_at_commit,
        MAX(IF(dimension = 'clients' AND is_of_cut, name_at_cut, NULL)) AS client_at_cut,
        MAX(IF(dimension = 'tables' AND is_of_commit, name_at_commit, NULL)) AS table_at_commit,
        MAX(IF(dimension = 'tables' AND is_of_cut, name_at_cut, NULL)) AS table_at_cut,
        TRANSFORM(
            ARRAY_SORT(
                COLLECT_LIST(
                    NAMED_STRUCT('place', place, 'pizza', name_at_commit, 'price', price_at_commit)
                ) FILTER (WHERE dimension = 'pizzas')
            ),
            item -> NAMED_STRUCT('pizza', item.pizza, 'price', item.price)
        ) AS pizzas_at_commit,
        TRANSFORM(
            ARRAY_SORT(
                COLLECT_LIST(
                    NAMED_STRUCT('place', place, 'pizza', name_at_cut, 'price', price_at_cut)
                ) FILTER (WHERE dimension = 'pizzas')
            ),
            item -> NAMED_STRUCT('pizza', item.pizza, 'price', item.price)
        ) AS pizzas_at_cut,
        ARRAY_DISTINCT(FLATTEN(COLLECT_LIST(changes))) AS changes
    FROM told
    GROUP BY order_id
)

SELECT
    suspects.order_id,
    expected.changes
FROM suspects
INNER JOIN expected ON suspects.order_id = expected.order_id
WHERE
    NOT ARRAY_CONTAINS(suspects.differing_columns, 'order_time')
    AND (
        suspects.stream.client_name <=> suspects.batch.client_name
        OR suspects.stream.client_name <=> expected.client_at_commit
        AND suspects.batch.client_name <=> expected.client_at_cut
    )
    AND (
        suspects.stream.table_name <=> suspects.batch.table_name
        OR suspects.stream.table_name <=> expected.table_at_commit
        AND suspects.batch.table_name <=> expected.table_at_cut
    )
    AND (
        suspects.stream.pizzas <=> suspects.batch.pizzas
        OR suspects.stream.pizzas <=> expected.pizzas_at_commit
        AND suspects.batch.pizzas <=> expected.pizzas_at_cut
    )
