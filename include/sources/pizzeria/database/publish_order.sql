-- The end of every transaction that touches an order: its outbox row and its logical message.
--
-- First a statement of its own locks the rows that the enriched order is made of, table by table
-- and in key order (so that two orders never wait for each other). Only then does the next
-- statement, with its own snapshot, read them: what it sees is what was committed before the
-- order, and a temporal join of the change log gives the same (READ COMMITTED is required).
CREATE OR REPLACE FUNCTION publish_order(changed_order_id bigint, changed_op text)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    enriched text;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'publish_order needs READ COMMITTED, not %',
            current_setting('transaction_isolation');
    END IF;

    PERFORM FROM clients
    WHERE id IN (
        SELECT table_assignment.client_id FROM orders
        JOIN table_assignment ON table_assignment.id = orders.table_assignment_id
        WHERE orders.id = changed_order_id
    )
    ORDER BY id FOR SHARE;

    PERFORM FROM pizzas
    WHERE id IN (SELECT unnest(orders.pizzas) FROM orders WHERE orders.id = changed_order_id)
    ORDER BY id FOR SHARE;

    PERFORM FROM table_assignment
    WHERE id IN (
        SELECT orders.table_assignment_id FROM orders WHERE orders.id = changed_order_id
    )
    ORDER BY id FOR SHARE;

    PERFORM FROM tables
    WHERE id IN (
        SELECT table_assignment.table_id FROM orders
        JOIN table_assignment ON table_assignment.id = orders.table_assignment_id
        WHERE orders.id = changed_order_id
    )
    ORDER BY id FOR SHARE;

    SELECT json_build_object(
        'op', changed_op,
        'order_id', order_id,
        'order_time', to_char(order_time AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'client_name', client_name,
        'table_name', table_name,
        'pizzas', pizzas
    )::text
    INTO enriched
    FROM order_enriched_in
    WHERE order_id = changed_order_id;

    -- A cancelled order is no longer there: its last change names it, and nothing else.
    IF enriched IS NULL THEN
        IF changed_op <> 'd' THEN
            RAISE EXCEPTION 'order % does not exist, so op must be d, not %',
                changed_order_id, changed_op;
        END IF;
        enriched := json_build_object('op', 'd', 'order_id', changed_order_id)::text;
    END IF;

    INSERT INTO orders_outbox (order_id, op, payload)
    VALUES (changed_order_id, changed_op, enriched);
    PERFORM pg_logical_emit_message(true, 'orders', enriched);
END;
$$;
