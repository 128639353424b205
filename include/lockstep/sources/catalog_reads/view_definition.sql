-- The query of a view, as PostgreSQL writes it: every table with its schema, every column with its
-- relation. The search path is empty. And what the role may: find it by its schema, and read it.
SELECT
    pg_get_viewdef(cls.oid, TRUE) AS definition,
    has_schema_privilege(namespace.oid, 'USAGE') AS may_find,
    has_table_privilege(cls.oid, 'SELECT') AS may_read
FROM pg_class AS cls
INNER JOIN pg_namespace AS namespace ON namespace.oid = cls.relnamespace
WHERE
    namespace.nspname = %(schema)s
    AND cls.relname = %(name)s
    AND cls.relkind IN ('v', 'm')
