-- The columns whose values are unique in their table, each by itself, after every statement.
SELECT
    namespace.nspname::text AS schema_name,
    class.relname::text AS table_name,
    attribute.attname::text AS column_name
FROM pg_index AS index
INNER JOIN pg_class AS class ON class.oid = index.indrelid
INNER JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
INNER JOIN pg_attribute AS attribute
    ON
        attribute.attrelid = class.oid
        AND attribute.attnum = index.indkey[0]
WHERE
    index.indisunique
    AND index.indisvalid
    AND index.indimmediate
    AND index.indnkeyatts = 1
    AND index.indpred IS NULL
    AND index.indexprs IS NULL
