-- Least privilege for each role. Run as pizzeria_owner in its database, after the schema.
GRANT CONNECT ON DATABASE pizzeria TO shop;
GRANT USAGE ON SCHEMA public TO shop, batch_reader, cdc;

-- The shop's application: everyday work on its own tables, appending to the outbox.
GRANT SELECT, INSERT, UPDATE, DELETE ON
orders, table_assignment, clients, tables, pizzas TO shop;
GRANT TRUNCATE ON orders TO shop;
GRANT SELECT, INSERT ON orders_outbox TO shop;
GRANT SELECT ON order_enriched_in TO shop;
REVOKE EXECUTE ON FUNCTION publish_order FROM PUBLIC;
GRANT EXECUTE ON FUNCTION publish_order TO shop;

-- The hourly run reads; its cut marker is a logical message, which every role may emit.
GRANT SELECT ON orders, table_assignment, clients, tables, pizzas, order_enriched_in
TO batch_reader;

-- Change data capture reads the captured tables (the initial snapshot) and the log.
GRANT SELECT ON orders, table_assignment, clients, tables, pizzas, orders_outbox TO cdc;

-- Loading orders with ids of their own moves the sequences past them (setval asks for UPDATE).
GRANT SELECT, UPDATE ON SEQUENCE
orders_id_seq, table_assignment_id_seq, clients_id_seq, tables_id_seq, pizzas_id_seq TO shop;
