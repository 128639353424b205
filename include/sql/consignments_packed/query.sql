-- A consignment with its lines, in their order: equal to PostgreSQL's consignments_packed_in.
SELECT
    consignments.consignment,
    consignments.booked_at,
    consignments.delivery,
    COUNT(consignment_lines.line_no) AS line_count,
    CAST(COALESCE(SUM(consignment_lines.weight), 0) AS decimal(12, 3)) AS total_weight,
    TRANSFORM(
        ARRAY_SORT(
            COLLECT_LIST(
                NAMED_STRUCT(
                    'line_no', consignment_lines.line_no,
                    'goods_label', goods.goods_label,
                    'parcels', consignment_lines.parcels
                )
            ) FILTER (WHERE consignment_lines.line_no IS NOT NULL)
        ),
        line -> NAMED_STRUCT('goods_label', line.goods_label, 'parcels', line.parcels)
    ) AS packed
FROM freight.consignments
LEFT JOIN freight.consignment_lines
    ON consignment_lines.consignment = consignments.consignment
LEFT JOIN freight.goods ON goods.goods_code = consignment_lines.goods_code
GROUP BY
    consignments.consignment,
    consignments.booked_at,
    consignments.delivery
