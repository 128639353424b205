-- What of a server and a database decides whether a connector starts. Any role may ask.
SELECT
    current_setting('server_version_num')::int AS version,
    current_setting('wal_level') AS wal_level,
    ARRAY(
        SELECT format_type(type.oid, NULL)
        FROM pg_type AS type
        WHERE
            type.typtype = 'e'
            AND NOT EXISTS (SELECT FROM pg_enum AS label WHERE label.enumtypid = type.oid)
        ORDER BY 1
    ) AS enums_without_labels
