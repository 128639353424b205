-- Least privilege for each role. Run as depot_owner in its database, after the tables.
GRANT USAGE ON SCHEMA freight TO depot_clerk, batch_reader, cdc;
GRANT SELECT, INSERT, UPDATE, DELETE ON
freight.regions, freight.customers, freight.goods, freight.consignments, freight.consignment_lines
TO depot_clerk;
GRANT SELECT ON
freight.regions, freight.customers, freight.goods, freight.consignments, freight.consignment_lines
TO batch_reader, cdc;
GRANT SELECT ON
freight.consignments_booked_in, freight.consignments_packed_in, freight.lines_priced_in
TO depot_clerk, batch_reader;
