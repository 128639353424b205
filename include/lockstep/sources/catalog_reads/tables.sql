-- What the catalog does not have of each of its tables: whether its changes are in the log,
-- whether it has a primary key that is a replica identity (no deferrable one is), and which of
-- these roles may use its schema and read it. Any role may ask.
SELECT
    namespace.nspname AS schema_name,
    class.relname AS table_name,
    class.relpersistence = 'p' AS is_logged,
    EXISTS (
        SELECT FROM pg_index AS index
        WHERE index.indrelid = class.oid AND index.indisprimary AND index.indimmediate
    ) AS has_identity,
    ARRAY(
        SELECT role.rolname::text
        FROM pg_roles AS role
        WHERE
            role.rolname = ANY(%(roles)s)
            AND has_schema_privilege(role.oid, namespace.oid, 'USAGE')
    ) AS schema_users,
    ARRAY(
        SELECT role.rolname::text
        FROM pg_roles AS role
        WHERE
            role.rolname = ANY(%(roles)s)
            AND has_table_privilege(role.oid, class.oid, 'SELECT')
    ) AS table_readers
FROM pg_class AS class
INNER JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
WHERE
    class.relkind IN ('r', 'p')
    AND NOT class.relispartition
    AND namespace.nspname = ANY(%(schemas)s)
