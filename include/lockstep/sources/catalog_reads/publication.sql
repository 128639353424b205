-- A publication, no row without one. Any role may ask.
-- Whole: every kind of change is in it, and changes of partitions are their table's.
SELECT
    publication.pubinsert
    AND publication.pubupdate
    AND publication.pubdelete
    AND publication.pubtruncate
    AND (to_jsonb(publication) ->> 'pubviaroot')::boolean IS TRUE AS is_whole,
    ARRAY(
        SELECT ARRAY[published.schemaname::text, published.tablename::text]
        FROM pg_publication_tables AS published
        WHERE published.pubname = publication.pubname
    ) AS published_tables
FROM pg_publication AS publication
WHERE publication.pubname = %(publication)s
