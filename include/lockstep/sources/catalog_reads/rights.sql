-- For each of these columns of a table whether this role may read it, and whether policies for rows
-- (row-level security) would hide rows from it; and whether it shows rows of other tables, too, that
-- inherit from it, which its primary key does not cover. Any role may ask.
SELECT
    attribute.attname AS column_name,
    has_schema_privilege(namespace.oid, 'USAGE')
    AND has_column_privilege(class.oid, attribute.attnum, 'SELECT') AS may_read,
    row_security_active(class.oid) AS has_hidden_rows,
    class.relkind = 'r'
    AND EXISTS (
        SELECT FROM pg_inherits AS child WHERE child.inhparent = class.oid
    ) AS has_heirs
FROM pg_class AS class
INNER JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
INNER JOIN pg_attribute AS attribute ON attribute.attrelid = class.oid
WHERE
    namespace.nspname = %(schema)s
    AND class.relname = %(table)s
    AND attribute.attname = ANY(%(columns)s)
ORDER BY attribute.attnum
