-- What change data capture sees: the five tables and the outbox, every operation. Run as the owner.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_publication WHERE pubname = 'lockstep') THEN
        CREATE PUBLICATION lockstep FOR TABLE
            orders, table_assignment, clients, tables, pizzas, orders_outbox;
    END IF;
END;
$$;
