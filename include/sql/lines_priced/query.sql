-- A line of a consignment, and its price of then: equal to PostgreSQL's lines_priced_in.
SELECT
    consignment_lines.consignment,
    consignment_lines.line_no,
    consignment_lines.packed_at,
    consignment_lines.parcels,
    goods.goods_label,
    goods.is_hazardous,
    consignments.delivery,
    customers.company,
    CAST(
        consignment_lines.weight * goods.rate + COALESCE(regions.surcharge, 0) AS decimal(18, 2)
    ) AS price
FROM freight.consignment_lines
LEFT JOIN freight.goods ON goods.goods_code = consignment_lines.goods_code
LEFT JOIN freight.consignments ON consignments.consignment = consignment_lines.consignment
LEFT JOIN freight.customers
    ON
        customers.branch = consignments.branch
        AND customers.customer_no = consignments.customer_no
LEFT JOIN freight.regions ON regions.region_code = customers.region_code
