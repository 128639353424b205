-- The type that each domain is directly over; that may be a domain, too.
SELECT
    format_type(domain.oid, NULL) AS domain_name,
    format_type(domain.typbasetype, domain.typtypmod) AS base_type
FROM pg_type AS domain
INNER JOIN pg_namespace AS namespace ON namespace.oid = domain.typnamespace
WHERE
    domain.typtype = 'd'
    AND namespace.nspname NOT IN ('pg_catalog', 'information_schema')
