-- The labels of each enum type in their own order.
SELECT
    format_type(label.enumtypid, NULL) AS type_name,
    array_agg(label.enumlabel::text ORDER BY label.enumsortorder) AS labels
FROM pg_enum AS label
GROUP BY label.enumtypid
