-- The columns of ordinary and partitioned tables in their order, with types as format_type writes
-- them under an empty search_path: only PostgreSQL's own types are without their schema.
-- Partitions are part of their table. Any role may ask.
SELECT
    namespace.nspname AS schema_name,
    class.relname AS table_name,
    class.relreplident::text AS replica_identity,
    attribute.attname AS column_name,
    format_type(attribute.atttypid, attribute.atttypmod) AS column_type,
    NOT attribute.attnotnull AS is_nullable
FROM pg_class AS class
INNER JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
INNER JOIN pg_attribute AS attribute ON attribute.attrelid = class.oid
WHERE
    class.relkind IN ('r', 'p')
    AND NOT class.relispartition
    AND namespace.nspname = ANY(%(schemas)s)
    AND attribute.attnum > 0
    AND NOT attribute.attisdropped
ORDER BY
    namespace.nspname,
    class.relname,
    attribute.attnum
