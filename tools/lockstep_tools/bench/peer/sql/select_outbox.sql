SELECT
    changes.`after`.order_id AS order_id,
    changes.`after`.op AS op,
    JSON_VALUE(changes.`after`.payload, '$.order_time') AS order_time,
    JSON_VALUE(changes.`after`.payload, '$.client_name') AS client_name,
    JSON_VALUE(changes.`after`.payload, '$.table_name') AS table_name,
    JSON_QUERY(changes.`after`.payload, '$.pizzas') AS pizzas,
    changes.source.lsn AS commit_lsn,
    changes.source.ts_us AS committed_us,
    changes.ts_us AS captured_us
FROM changes
WHERE
    changes.source.`table` = 'orders_outbox'
    AND changes.op IN ('c', 'r')
