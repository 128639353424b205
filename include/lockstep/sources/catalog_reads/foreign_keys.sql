-- The foreign keys that are checked at once, a row for each column of one: what refers to what.
SELECT
    con.oid::bigint AS foreign_key,
    from_namespace.nspname::text AS from_schema,
    from_class.relname::text AS from_table,
    from_attribute.attname::text AS from_column,
    to_namespace.nspname::text AS to_schema,
    to_class.relname::text AS to_table,
    to_attribute.attname::text AS to_column
FROM pg_constraint AS con
INNER JOIN pg_class AS from_class ON from_class.oid = con.conrelid
INNER JOIN pg_namespace AS from_namespace ON from_namespace.oid = from_class.relnamespace
INNER JOIN pg_class AS to_class ON to_class.oid = con.confrelid
INNER JOIN pg_namespace AS to_namespace ON to_namespace.oid = to_class.relnamespace
CROSS JOIN LATERAL unnest(con.conkey, con.confkey) AS pair (from_number, to_number)
INNER JOIN pg_attribute AS from_attribute
    ON
        from_attribute.attrelid = con.conrelid
        AND from_attribute.attnum = pair.from_number
INNER JOIN pg_attribute AS to_attribute
    ON
        to_attribute.attrelid = con.confrelid
        AND to_attribute.attnum = pair.to_number
WHERE
    con.contype = 'f'
    AND con.convalidated
    AND NOT con.condeferrable
