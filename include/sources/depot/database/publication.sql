-- What change data capture sees: the tables and the outboxes, every operation. Run as the owner.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_publication WHERE pubname = 'lockstep__depot') THEN
        CREATE PUBLICATION lockstep__depot FOR TABLE
            freight.regions, freight.customers, freight.goods, freight.consignments,
            freight.consignment_lines, freight.consignments_outbox, freight.packed_outbox,
            freight.lines_outbox
        WITH (
            publish = 'insert, update, delete, truncate', publish_via_partition_root = true
        );
    END IF;
END;
$$;
