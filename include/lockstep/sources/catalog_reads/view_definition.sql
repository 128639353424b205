-- The query of a view, as PostgreSQL writes it: every table with its schema, every column with its
-- relation. The search path is empty.
SELECT pg_get_viewdef(cls.oid, TRUE) AS definition
FROM pg_class AS cls
INNER JOIN pg_namespace AS namespace ON namespace.oid = cls.relnamespace
WHERE
    namespace.nspname = %(schema)s
    AND cls.relname = %(name)s
    AND cls.relkind IN ('v', 'm')
