-- A forwarder's depot. Run as depot_owner in its database; running it again changes nothing.
--
-- A customer books a consignment, which has lines, packed one after the other. Times are those of the
-- clock on the wall, in Europe/Berlin.
CREATE SCHEMA IF NOT EXISTS freight;

DO $$
BEGIN
    IF to_regtype('freight.delivery_class') IS NULL THEN
        CREATE TYPE freight.delivery_class AS ENUM ('standard', 'express', 'overnight');
    END IF;
END;
$$;

CREATE TABLE IF NOT EXISTS freight.regions (
    region_code text PRIMARY KEY,
    region_title text NOT NULL,
    surcharge numeric(6, 2) NOT NULL
);

-- A branch counts its customers from 1. contract is what sales agreed with them, in no fixed form.
CREATE TABLE IF NOT EXISTS freight.customers (
    branch text,
    customer_no integer,
    company text NOT NULL,
    region_code text REFERENCES freight.regions,
    contract jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (branch, customer_no)
);

CREATE TABLE IF NOT EXISTS freight.goods (
    goods_code text PRIMARY KEY,
    goods_label text NOT NULL,
    rate numeric(10, 4) NOT NULL,
    is_hazardous boolean NOT NULL DEFAULT false
);

CREATE TABLE IF NOT EXISTS freight.consignments (
    consignment uuid PRIMARY KEY,
    branch text NOT NULL,
    customer_no integer NOT NULL,
    delivery freight.delivery_class NOT NULL,
    booked_at timestamp NOT NULL,
    memo text,
    FOREIGN KEY (branch, customer_no) REFERENCES freight.customers
);

CREATE TABLE IF NOT EXISTS freight.consignment_lines (
    consignment uuid REFERENCES freight.consignments ON DELETE CASCADE,
    line_no smallint,
    goods_code text NOT NULL REFERENCES freight.goods,
    parcels integer NOT NULL CHECK (parcels > 0),
    weight numeric(9, 3) NOT NULL,
    packed_at timestamp NOT NULL,
    PRIMARY KEY (consignment, line_no)
);

-- Windows are cut out of these, as instants.
CREATE INDEX IF NOT EXISTS consignments_booked
ON freight.consignments ((booked_at AT TIME ZONE 'Europe/Berlin'));
CREATE INDEX IF NOT EXISTS lines_packed
ON freight.consignment_lines ((packed_at AT TIME ZONE 'Europe/Berlin'));

-- The old row is whole in each change, large values and parents of deleted lines, too.
ALTER TABLE freight.regions REPLICA IDENTITY FULL;
ALTER TABLE freight.customers REPLICA IDENTITY FULL;
ALTER TABLE freight.goods REPLICA IDENTITY FULL;
ALTER TABLE freight.consignments REPLICA IDENTITY FULL;
ALTER TABLE freight.consignment_lines REPLICA IDENTITY FULL;
