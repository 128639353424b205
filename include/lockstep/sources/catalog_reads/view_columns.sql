-- The columns of a view, materialized or not, or of a table that stands for one, with their types;
-- a domain as the type that it is of. Any role may ask.
SELECT
    attribute.attname AS column_name,
    CASE
        WHEN type.typtype = 'd' THEN format_type(type.typbasetype, type.typtypmod)
        ELSE format_type(attribute.atttypid, attribute.atttypmod)
    END AS column_type
FROM pg_class AS class
INNER JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
INNER JOIN pg_attribute AS attribute ON attribute.attrelid = class.oid
INNER JOIN pg_type AS type ON type.oid = attribute.atttypid
WHERE
    class.relkind IN ('v', 'm', 'r', 'p', 'f')
    AND namespace.nspname = %(schema)s
    AND class.relname = %(view)s
    AND attribute.attnum > 0
    AND NOT attribute.attisdropped
ORDER BY attribute.attnum
