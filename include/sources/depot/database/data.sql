-- Three days of the depot, those around the change to summer time: 28 to 30 March 2026. Its totals are
-- in tests/depot/test_data.py. It is written once, into empty tables, and published as the
-- application publishes.
INSERT INTO freight.regions (region_code, region_title, surcharge)
SELECT
    'R' || n,
    (ARRAY['Nord', 'Ost', 'Süd', 'West', 'Ausland'])[n],
    (ARRAY[0.00, 1.50, 2.25, 0.75, 12.00])[n]
FROM generate_series(1, 5) AS n
ON CONFLICT DO NOTHING;

-- The 7th customer of each branch has no region yet.
INSERT INTO freight.customers (branch, customer_no, company, region_code, contract)
SELECT
    branch,
    n,
    format('%s Kunde %s', branch, n),
    CASE WHEN n <> 7 THEN 'R' || (1 + (n + ascii(branch)) % 5) END,
    jsonb_build_object('since', 2000 + n % 26, 'discount', n % 4, 'tags', to_jsonb(ARRAY['a', 'b']))
FROM unnest(ARRAY['BER', 'HAM', 'MUC', 'CGN']) AS branch, generate_series(1, 12) AS n
ON CONFLICT DO NOTHING;

INSERT INTO freight.goods (goods_code, goods_label, rate, is_hazardous)
SELECT
    'G' || n,
    (ARRAY['Papier', 'Glas', 'Lacke', 'Textil', 'Maschinen', 'Akkus', 'Möbel', 'Kaffee'])[n],
    0.1250 * n,
    n IN (3, 6)
FROM generate_series(1, 8) AS n
ON CONFLICT DO NOTHING;

-- One every ten minutes: three days have 71 hours here, and so 426 of them.
INSERT INTO freight.consignments (consignment, branch, customer_no, delivery, booked_at, memo)
SELECT
    md5('consignment ' || n)::uuid,
    (ARRAY['BER', 'HAM', 'MUC', 'CGN'])[1 + n % 4],
    1 + n % 12,
    (ARRAY['standard', 'standard', 'express', 'overnight'])[1 + n % 4]::freight.delivery_class,
    ('2026-03-28 00:00 Europe/Berlin'::timestamptz + n * interval '10 minutes')
    AT TIME ZONE 'Europe/Berlin',
    CASE WHEN n % 5 = 0 THEN format('bitte "vorsichtig" %s', n) END
FROM generate_series(0, 425) AS n
WHERE NOT EXISTS (SELECT FROM freight.consignments);

-- The n-th has 1 + n % 4 lines, packed two minutes apart.
INSERT INTO freight.consignment_lines (consignment, line_no, goods_code, parcels, weight, packed_at)
SELECT
    md5('consignment ' || n)::uuid,
    line_no,
    'G' || (1 + (n + line_no) % 8),
    1 + (n * line_no) % 6,
    0.250 * (1 + (n + 3 * line_no) % 40),
    ('2026-03-28 00:00 Europe/Berlin'::timestamptz
        + n * interval '10 minutes' + line_no * interval '2 minutes')
    AT TIME ZONE 'Europe/Berlin'
FROM generate_series(0, 425) AS n, generate_series(1, 1 + n % 4) AS line_no
WHERE NOT EXISTS (SELECT FROM freight.consignment_lines);

SELECT freight.lockstep_publish__consignments_booked(consignment, 'c')
FROM freight.consignments
WHERE NOT EXISTS (SELECT FROM freight.consignments_outbox);

SELECT freight.lockstep_publish__lines_priced(consignment, line_no, 'c')
FROM freight.consignment_lines
WHERE NOT EXISTS (SELECT FROM freight.lines_outbox);

SELECT freight.lockstep_publish__consignments_packed(consignment, 'c')
FROM freight.consignments
WHERE NOT EXISTS (SELECT FROM freight.packed_outbox);
