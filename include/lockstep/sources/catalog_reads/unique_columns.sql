-- The columns whose values are unique in their table, together, after every statement: of each index.
SELECT
    namespace.nspname::text AS schema_name,
    class.relname::text AS table_name,
    array_agg(attribute.attname::text) AS columns
FROM pg_index AS index
INNER JOIN pg_class AS class ON class.oid = index.indrelid
INNER JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
CROSS JOIN LATERAL unnest(index.indkey::int2[]) WITH ORDINALITY AS of_index (number, place)
INNER JOIN pg_attribute AS attribute
    ON
        attribute.attrelid = class.oid
        AND attribute.attnum = of_index.number
WHERE
    index.indisunique
    AND index.indisvalid
    AND index.indimmediate
    AND index.indpred IS NULL
    AND index.indexprs IS NULL
    AND of_index.place <= index.indnkeyatts
GROUP BY index.indexrelid, namespace.nspname, class.relname
