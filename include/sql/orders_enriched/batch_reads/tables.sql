SELECT
    id,
    name
FROM tables
