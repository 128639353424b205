-- A great many orders at once, for benchmarks of the hourly run on a database of its own: set-based,
-- without outbox rows or messages. Run as the owner by pizzeria.shop.bulk, which binds orders,
-- clients, assignments, pizzas, tables (how many of each), first_hour, span (interval) and seed.

-- A number from 1 to choices: a hash, not random(), so that every plan makes the same rows.
CREATE FUNCTION pg_temp.choice(number bigint, salt integer, choices integer) RETURNS integer
LANGUAGE sql IMMUTABLE
RETURN 1 + mod(hashint8extended(number, %(seed)s * 16 + salt) & 2147483647, choices);

-- Checked in one go below, for row by row the foreign keys are nearly all of the time.
ALTER TABLE table_assignment ALTER CONSTRAINT table_assignment_client_id_fkey NOT ENFORCED;
ALTER TABLE table_assignment ALTER CONSTRAINT table_assignment_table_id_fkey NOT ENFORCED;
ALTER TABLE orders ALTER CONSTRAINT orders_table_assignment_id_fkey NOT ENFORCED;

INSERT INTO pizzas (id, name, price)
SELECT
    n,
    'Bench Pizza ' || n,
    8 + n * 0.25
FROM generate_series(1, %(pizzas)s) AS n;

INSERT INTO tables (id, name)
SELECT
    n,
    'Table ' || n
FROM generate_series(1, %(tables)s) AS n;

INSERT INTO clients (id, name)
SELECT
    n,
    'Client ' || n
FROM generate_series(1, %(clients)s) AS n;

INSERT INTO table_assignment (id, client_id, table_id, in_time, out_time)
SELECT
    n,
    pg_temp.choice(n, 1, %(clients)s),
    pg_temp.choice(n, 2, %(tables)s),
    %(first_hour)s + (n - 1) * (%(span)s / %(assignments)s) - INTERVAL '5 minutes',
    %(first_hour)s + (n - 1) * (%(span)s / %(assignments)s) + INTERVAL '1 hour'
FROM generate_series(1, %(assignments)s) AS n;

-- One to five pizzas, 34, 29, 19, 10 and 8 times in 100: 2.29 on average.
INSERT INTO orders (id, table_assignment_id, order_time, pizzas)
SELECT
    n,
    1 + (n - 1) * %(assignments)s::bigint / %(orders)s,
    %(first_hour)s + (n - 1) * (%(span)s / %(orders)s),
    (ARRAY[
        pg_temp.choice(n, 3, %(pizzas)s),
        pg_temp.choice(n, 4, %(pizzas)s),
        pg_temp.choice(n, 5, %(pizzas)s),
        pg_temp.choice(n, 6, %(pizzas)s),
        pg_temp.choice(n, 7, %(pizzas)s)
    ])[:1 + width_bucket(pg_temp.choice(n, 8, 100), ARRAY[35, 64, 83, 93])]
FROM generate_series(1, %(orders)s) AS n;

ALTER TABLE table_assignment ALTER CONSTRAINT table_assignment_client_id_fkey ENFORCED;
ALTER TABLE table_assignment ALTER CONSTRAINT table_assignment_table_id_fkey ENFORCED;
ALTER TABLE orders ALTER CONSTRAINT orders_table_assignment_id_fkey ENFORCED;

SELECT setval(pg_get_serial_sequence('pizzas', 'id'), %(pizzas)s);
SELECT setval(pg_get_serial_sequence('tables', 'id'), %(tables)s);
SELECT setval(pg_get_serial_sequence('clients', 'id'), %(clients)s);
SELECT setval(pg_get_serial_sequence('table_assignment', 'id'), %(assignments)s);
SELECT setval(pg_get_serial_sequence('orders', 'id'), %(orders)s);
