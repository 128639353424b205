-- The rows of the pipelines, as PostgreSQL itself joins them.
CREATE OR REPLACE VIEW freight.consignments_booked_in AS
SELECT
    consignments.consignment,
    consignments.booked_at AT TIME ZONE 'Europe/Berlin' AS booked_at,
    consignments.delivery,
    consignments.memo,
    customers.company,
    customers.contract,
    regions.region_title,
    coalesce(regions.surcharge, 0)::numeric(6, 2) AS surcharge
FROM freight.consignments
LEFT JOIN freight.customers
    ON customers.branch = consignments.branch
    AND customers.customer_no = consignments.customer_no
LEFT JOIN freight.regions ON regions.region_code = customers.region_code;

CREATE OR REPLACE VIEW freight.lines_priced_in AS
SELECT
    consignment_lines.consignment,
    consignment_lines.line_no,
    consignment_lines.packed_at AT TIME ZONE 'Europe/Berlin' AS packed_at,
    consignment_lines.parcels,
    goods.goods_label,
    goods.is_hazardous,
    consignments.delivery,
    customers.company,
    (
        consignment_lines.weight * goods.rate + coalesce(regions.surcharge, 0)
    )::numeric(18, 2) AS price
FROM freight.consignment_lines
LEFT JOIN freight.goods ON goods.goods_code = consignment_lines.goods_code
LEFT JOIN freight.consignments ON consignments.consignment = consignment_lines.consignment
LEFT JOIN freight.customers
    ON customers.branch = consignments.branch
    AND customers.customer_no = consignments.customer_no
LEFT JOIN freight.regions ON regions.region_code = customers.region_code;

CREATE OR REPLACE VIEW freight.consignments_packed_in AS
SELECT
    consignments.consignment,
    consignments.booked_at AT TIME ZONE 'Europe/Berlin' AS booked_at,
    consignments.delivery,
    count(consignment_lines.line_no) AS line_count,
    coalesce(sum(consignment_lines.weight), 0)::numeric(12, 3) AS total_weight,
    coalesce(
        json_agg(
            json_build_object(
                'goods_label', goods.goods_label,
                'parcels', consignment_lines.parcels
            )
            ORDER BY consignment_lines.line_no
        ) FILTER (WHERE consignment_lines.line_no IS NOT NULL),
        '[]'
    ) AS packed
FROM freight.consignments
LEFT JOIN freight.consignment_lines
    ON consignment_lines.consignment = consignments.consignment
LEFT JOIN freight.goods ON goods.goods_code = consignment_lines.goods_code
GROUP BY consignments.consignment;
