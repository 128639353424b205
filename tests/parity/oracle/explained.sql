-- Of orders that both sides have with other values: does the database's history explain every
-- differing column, and which changes do? The others are left out.
--
-- Relations: suspects (of differences.sql: order_id, batch, stream, cut, differing_columns),
-- stream_changes (as there), and source_history, whose rows are JSON. Each order has a cut of its
-- own. Parameter: the stream's mode.
--
-- A column is explained when the stream's value is the one that the dimensions held at the moment
-- that the stream is of, and the hourly table's the one that they held at the cut.
-- * The hourly table read the rows that the order itself refers to (batch.origin), at the cut.
-- * A stream is of the order's commit, and of the same rows.
-- * A raced row is of the look-up's own snapshot (stream.look_up): of the order's last change that
--   it sees, and of the rows that this change refers to; of nothing, if it sees none or a delete.
--   All of its columns must be what that snapshot held. Without a snapshot nothing is explained.
WITH versions AS (
    SELECT
        SUBSTRING_INDEX(`table`, '.', -1) AS dimension,
        CAST(GET_JSON_OBJECT(row_key, '$$[0]') AS BIGINT) AS id,
        GET_JSON_OBJECT(`row`, '$$.name') AS name, -- noqa: RF04
        CAST(GET_JSON_OBJECT(`row`, '$$.price') AS DECIMAL(10, 2)) AS price,
        CAST(GET_JSON_OBJECT(`row`, '$$.client_id') AS BIGINT) AS client_id,
        CAST(GET_JSON_OBJECT(`row`, '$$.table_id') AS BIGINT) AS table_id,
        tx_id,
        commit_lsn,
        committed_at
    FROM source_history
    WHERE `table` <> 'public.orders'
),

looked_up AS (
    SELECT
        order_id,
        NAMED_STRUCT(
            'xmin', CAST(snapshot_parts[0] AS BIGINT),
            'xmax', CAST(snapshot_parts[1] AS BIGINT),
            'in_progress', CAST(
                FILTER(SPLIT(snapshot_parts[2], ','), id -> id <> '') AS ARRAY<BIGINT>
            )
        ) AS seen_by
    FROM (
        SELECT
            order_id,
            SPLIT(stream.look_up.snapshot, ':') AS snapshot_parts
        FROM suspects
        -- Of other modes, which mark no rows, the plan has no join with the changes.
        WHERE '${mode}' = 'lookup' AND stream.is_raced
    )
    WHERE snapshot_parts IS NOT NULL
),

seen_changes AS (
    SELECT
        looked_up.order_id,
        looked_up.seen_by,
        NAMED_STRUCT(
            'op', stream_changes.op,
            'tx_id', stream_changes.tx_id,
            'committed_at', stream_changes.committed_at,
            'assignment_id', stream_changes.look_up.table_assignment_id,
            'pizza_ids', stream_changes.look_up.pizza_ids
        ) AS seen,
        stream_changes.commit_lsn,
        stream_changes.tx_id IS NULL
        OR stream_changes.tx_id < seen_by.xmin
        OR (
            stream_changes.tx_id < seen_by.xmax
            AND NOT ARRAY_CONTAINS(seen_by.in_progress, stream_changes.tx_id)
        ) AS is_seen
    FROM looked_up
    INNER JOIN stream_changes ON looked_up.order_id = stream_changes.order_id
),

raced AS (
    SELECT
        order_id,
        ANY_VALUE(seen_by) AS seen_by,
        MAX_BY(seen, commit_lsn) FILTER (WHERE is_seen) AS seen,
        COALESCE(MAX_BY(seen.op, commit_lsn) FILTER (WHERE is_seen) <> 'd', FALSE) AS is_there
    FROM seen_changes
    GROUP BY order_id
),

orders_in_question AS (
    SELECT
        suspects.order_id,
        IF(suspects.stream.is_raced, NULL, suspects.stream.commit_lsn) AS read_at_lsn,
        raced.seen_by,
        suspects.cut,
        NAMED_STRUCT(
            'assignment_id', suspects.batch.origin.table_assignment_id,
            'pizza_ids', CAST(suspects.batch.origin.pizza_ids AS ARRAY<BIGINT>)
        ) AS batch_refers,
        IF(
            suspects.stream.is_raced,
            NAMED_STRUCT(
                'assignment_id', raced.seen.assignment_id,
                'pizza_ids', raced.seen.pizza_ids
            ),
            NAMED_STRUCT(
                'assignment_id', suspects.batch.origin.table_assignment_id,
                'pizza_ids', CAST(suspects.batch.origin.pizza_ids AS ARRAY<BIGINT>)
            )
        ) AS stream_refers
    FROM suspects
    LEFT JOIN raced ON suspects.order_id = raced.order_id
),

-- What each side refers to: a row for both, nearly always; else a row for each.
readings AS (
    SELECT
        order_id,
        read_at_lsn,
        seen_by,
        cut,
        reading.refers.assignment_id,
        reading.refers.pizza_ids,
        reading.is_of_stream,
        reading.is_of_batch
    FROM orders_in_question
        LATERAL VIEW
        EXPLODE(
            IF(
                stream_refers <=> batch_refers,
                ARRAY(
                    NAMED_STRUCT(
                        'refers', batch_refers, 'is_of_stream', TRUE, 'is_of_batch', TRUE
                    )
                ),
                ARRAY(
                    NAMED_STRUCT(
                        'refers', stream_refers, 'is_of_stream', TRUE, 'is_of_batch', FALSE
                    ),
                    NAMED_STRUCT(
                        'refers', batch_refers, 'is_of_stream', FALSE, 'is_of_batch', TRUE
                    )
                )
            )
        ) each_reading AS reading
),

seat_versions AS (
    SELECT
        readings.order_id,
        readings.read_at_lsn,
        readings.seen_by,
        readings.cut,
        readings.assignment_id,
        readings.is_of_stream,
        readings.is_of_batch,
        versions.client_id,
        versions.table_id,
        versions.commit_lsn,
        NAMED_STRUCT('tx_id', versions.tx_id, 'committed_at', versions.committed_at) AS by_change,
        IF(
            readings.read_at_lsn IS NULL,
            versions.tx_id IS NULL
            OR versions.tx_id < seen_by.xmin
            OR (
                versions.tx_id < seen_by.xmax
                AND NOT ARRAY_CONTAINS(seen_by.in_progress, versions.tx_id)
            ),
            versions.commit_lsn <= readings.read_at_lsn
        ) AS is_in_stream,
        versions.tx_id IS NULL
        OR versions.tx_id < cut.xmin
        OR (versions.tx_id < cut.xmax AND NOT ARRAY_CONTAINS(cut.in_progress, versions.tx_id))
            AS is_in_batch
    FROM readings
    LEFT JOIN versions
        ON
            versions.dimension = 'table_assignment'
            AND readings.assignment_id = versions.id
),

seated AS (
    SELECT
        order_id,
        read_at_lsn,
        assignment_id,
        BOOL_OR(is_of_stream) AS is_of_stream,
        BOOL_OR(is_of_batch) AS is_of_batch,
        ANY_VALUE(seen_by) AS seen_by,
        ANY_VALUE(cut) AS cut,
        MAX_BY(client_id, commit_lsn) FILTER (WHERE is_in_stream) AS client_in_stream,
        MAX_BY(client_id, commit_lsn) FILTER (WHERE is_in_batch) AS client_in_batch,
        MAX_BY(table_id, commit_lsn) FILTER (WHERE is_in_stream) AS table_in_stream,
        MAX_BY(table_id, commit_lsn) FILTER (WHERE is_in_batch) AS table_in_batch,
        MAX_BY(by_change, commit_lsn) FILTER (WHERE is_in_batch <> is_in_stream) AS by_change
    FROM seat_versions
    GROUP BY order_id, read_at_lsn, assignment_id
),

referred AS (
    SELECT
        order_id,
        read_at_lsn,
        seen_by,
        cut,
        'clients' AS dimension,
        0 AS place,
        id,
        is_of_stream AND id <=> client_in_stream AS is_of_stream,
        is_of_batch AND id <=> client_in_batch AS is_of_batch
    FROM seated
        LATERAL VIEW
        EXPLODE(ARRAY_DISTINCT(ARRAY(client_in_stream, client_in_batch))) client AS id
    UNION ALL
    SELECT
        order_id,
        read_at_lsn,
        seen_by,
        cut,
        'tables',
        0,
        id,
        is_of_stream AND id <=> table_in_stream,
        is_of_batch AND id <=> table_in_batch
    FROM seated
        LATERAL VIEW
        EXPLODE(ARRAY_DISTINCT(ARRAY(table_in_stream, table_in_batch))) dining_table AS id
    UNION ALL
    SELECT
        order_id,
        read_at_lsn,
        seen_by,
        cut,
        'pizzas',
        place,
        CAST(pizza_id AS BIGINT),
        is_of_stream,
        is_of_batch
    FROM readings
        LATERAL VIEW POSEXPLODE(pizza_ids) ordered AS place, pizza_id
),

referred_versions AS (
    SELECT
        referred.order_id,
        referred.dimension,
        referred.place,
        referred.id,
        referred.is_of_stream,
        referred.is_of_batch,
        versions.name,
        versions.price,
        versions.commit_lsn,
        NAMED_STRUCT('tx_id', versions.tx_id, 'committed_at', versions.committed_at) AS by_change,
        IF(
            referred.read_at_lsn IS NULL,
            versions.tx_id IS NULL
            OR versions.tx_id < seen_by.xmin
            OR (
                versions.tx_id < seen_by.xmax
                AND NOT ARRAY_CONTAINS(seen_by.in_progress, versions.tx_id)
            ),
            versions.commit_lsn <= referred.read_at_lsn
        ) AS is_in_stream,
        versions.tx_id IS NULL
        OR versions.tx_id < cut.xmin
        OR (versions.tx_id < cut.xmax AND NOT ARRAY_CONTAINS(cut.in_progress, versions.tx_id))
            AS is_in_batch
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
        BOOL_OR(is_of_stream) AS is_of_stream,
        BOOL_OR(is_of_batch) AS is_of_batch,
        MAX_BY(name, commit_lsn) FILTER (WHERE is_in_stream) AS name_in_stream,
        MAX_BY(price, commit_lsn) FILTER (WHERE is_in_stream) AS price_in_stream,
        MAX_BY(name, commit_lsn) FILTER (WHERE is_in_batch) AS name_in_batch,
        MAX_BY(price, commit_lsn) FILTER (WHERE is_in_batch) AS price_in_batch,
        MAX_BY(by_change, commit_lsn) FILTER (WHERE is_in_batch <> is_in_stream) AS by_change
    FROM referred_versions
    GROUP BY order_id, dimension, place, id
),

reported AS (
    SELECT
        order_id,
        dimension,
        place,
        is_of_stream,
        is_of_batch,
        name_in_stream,
        price_in_stream,
        name_in_batch,
        price_in_batch,
        FILTER(
            ARRAY(
                IF(
                    is_of_stream AND is_of_batch AND NOT name_in_stream <=> name_in_batch,
                    NAMED_STRUCT(
                        'table', dimension,
                        'id', id,
                        'column', 'name',
                        'from', name_in_stream,
                        'to', name_in_batch,
                        'tx_id', by_change.tx_id,
                        'committed_at', by_change.committed_at
                    ),
                    NULL
                ),
                IF(
                    is_of_stream AND is_of_batch AND NOT price_in_stream <=> price_in_batch,
                    NAMED_STRUCT(
                        'table', dimension,
                        'id', id,
                        'column', 'price',
                        'from', CAST(price_in_stream AS STRING),
                        'to', CAST(price_in_batch AS STRING),
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
        is_of_stream,
        is_of_batch,
        NULL,
        NULL,
        NULL,
        NULL,
        FILTER(
            ARRAY(
                IF(
                    NOT (is_of_stream AND is_of_batch) OR client_in_stream <=> client_in_batch,
                    NULL,
                    NAMED_STRUCT(
                        'table', 'table_assignment',
                        'id', assignment_id,
                        'column', 'client_id',
                        'from', CAST(client_in_stream AS STRING),
                        'to', CAST(client_in_batch AS STRING),
                        'tx_id', by_change.tx_id,
                        'committed_at', by_change.committed_at
                    )
                ),
                IF(
                    NOT (is_of_stream AND is_of_batch) OR table_in_stream <=> table_in_batch,
                    NULL,
                    NAMED_STRUCT(
                        'table', 'table_assignment',
                        'id', assignment_id,
                        'column', 'table_id',
                        'from', CAST(table_in_stream AS STRING),
                        'to', CAST(table_in_batch AS STRING),
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
        MAX(IF(dimension = 'clients' AND is_of_stream, name_in_stream, NULL)) AS client_in_stream,
        MAX(IF(dimension = 'clients' AND is_of_batch, name_in_batch, NULL)) AS client_in_batch,
        MAX(IF(dimension = 'tables' AND is_of_stream, name_in_stream, NULL)) AS table_in_stream,
        MAX(IF(dimension = 'tables' AND is_of_batch, name_in_batch, NULL)) AS table_in_batch,
        TRANSFORM(
            ARRAY_SORT(
                COLLECT_LIST(
                    NAMED_STRUCT('place', place, 'pizza', name_in_stream, 'price', price_in_stream)
                ) FILTER (WHERE dimension = 'pizzas' AND is_of_stream)
            ),
            item -> NAMED_STRUCT('pizza', item.pizza, 'price', item.price)
        ) AS pizzas_in_stream,
        TRANSFORM(
            ARRAY_SORT(
                COLLECT_LIST(
                    NAMED_STRUCT('place', place, 'pizza', name_in_batch, 'price', price_in_batch)
                ) FILTER (WHERE dimension = 'pizzas' AND is_of_batch)
            ),
            item -> NAMED_STRUCT('pizza', item.pizza, 'price', item.price)
        ) AS pizzas_in_batch,
        ARRAY_DISTINCT(FLATTEN(COLLECT_LIST(changes))) AS changes
    FROM reported
    GROUP BY order_id
)

SELECT
    suspects.order_id,
    expected.changes,
    raced.seen
FROM suspects
INNER JOIN expected ON suspects.order_id = expected.order_id
LEFT JOIN raced ON suspects.order_id = raced.order_id
WHERE
    (
        NOT suspects.stream.is_raced
        OR raced.seen_by IS NOT NULL
        AND (NOT raced.is_there OR raced.seen.assignment_id IS NOT NULL)
        -- What the change refers to, by the topic, is what the hourly table's row was made of.
        AND suspects.batch.origin.table_assignment_id
        <=> suspects.stream.look_up.table_assignment_id
        AND CAST(suspects.batch.origin.pizza_ids AS ARRAY<BIGINT>)
        <=> suspects.stream.look_up.pizza_ids
        AND suspects.stream.client_name <=> expected.client_in_stream
        AND suspects.stream.table_name <=> expected.table_in_stream
        AND suspects.stream.pizzas <=> IF(raced.is_there, expected.pizzas_in_stream, NULL)
    )
    AND suspects.stream.order_time
    <=> IF(COALESCE(raced.is_there, TRUE), suspects.batch.order_time, NULL)
    AND (
        suspects.stream.client_name <=> suspects.batch.client_name
        OR suspects.stream.client_name <=> expected.client_in_stream
        AND suspects.batch.client_name <=> expected.client_in_batch
    )
    AND (
        suspects.stream.table_name <=> suspects.batch.table_name
        OR suspects.stream.table_name <=> expected.table_in_stream
        AND suspects.batch.table_name <=> expected.table_in_batch
    )
    AND (
        suspects.stream.pizzas <=> suspects.batch.pizzas
        OR (suspects.stream.is_raced OR suspects.stream.pizzas <=> expected.pizzas_in_stream)
        AND suspects.batch.pizzas <=> expected.pizzas_in_batch
    )
