-- A publication, no row without one. Any role may ask.
-- Whole: every kind of change is in it, and changes of partitions are their table's.
-- Each table has the oid of its membership, which a table that leaves and comes again has another
-- one of; that of the publication where it is for all tables, or for those of a schema.
SELECT
    publication.pubinsert
    AND publication.pubupdate
    AND publication.pubdelete
    AND publication.pubtruncate
    AND (to_jsonb(publication) ->> 'pubviaroot')::boolean IS TRUE AS is_whole,
    ARRAY(
        SELECT ARRAY[
            published.schemaname::text,
            published.tablename::text,
            coalesce(member.oid, publication.oid)::text
        ]
        FROM pg_publication_tables AS published
        INNER JOIN pg_namespace AS schemas ON schemas.nspname = published.schemaname
        INNER JOIN pg_class AS tables
            ON tables.relnamespace = schemas.oid AND tables.relname = published.tablename
        LEFT JOIN pg_publication_rel AS member
            ON member.prpubid = publication.oid AND member.prrelid = tables.oid
        WHERE published.pubname = publication.pubname
    ) AS published_tables
FROM pg_publication AS publication
WHERE publication.pubname = %(publication)s
