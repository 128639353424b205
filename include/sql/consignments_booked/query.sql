-- A consignment, with its customer and region of then: equal to consignments_booked_in.
SELECT
    consignments.consignment,
    consignments.booked_at,
    consignments.delivery,
    consignments.memo,
    customers.company,
    customers.contract,
    regions.region_title,
    CAST(COALESCE(regions.surcharge, 0) AS decimal(6, 2)) AS surcharge
FROM freight.consignments
LEFT JOIN freight.customers
    ON
        customers.branch = consignments.branch
        AND customers.customer_no = consignments.customer_no
LEFT JOIN freight.regions ON regions.region_code = customers.region_code
