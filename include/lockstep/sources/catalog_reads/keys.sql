-- The columns of each primary key in the key's own order.
SELECT
    namespace.nspname AS schema_name,
    class.relname AS table_name,
    array_agg(attribute.attname::text ORDER BY key.place) AS key_columns
FROM pg_index AS index
INNER JOIN pg_class AS class ON class.oid = index.indrelid
INNER JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
CROSS JOIN LATERAL unnest(index.indkey::smallint[]) WITH ORDINALITY AS key (attnum, place)
INNER JOIN pg_attribute AS attribute
    ON
        attribute.attrelid = class.oid
        AND attribute.attnum = key.attnum
WHERE
    index.indisprimary
    AND key.place <= index.indnkeyatts
    AND namespace.nspname = ANY(%(schemas)s)
GROUP BY
    namespace.nspname,
    class.relname
