-- DataFusion SQL: a window's rows of the hourly table, each with the transaction (64 bits) that
-- wrote the row of `orders` it was made of. The dates are the window's: they choose partitions.
SELECT
    order_id,
    order_time,
    client_name,
    table_name,
    pizzas,
    origin['tx_id'] AS tx_id
FROM orders_enriched_batch
WHERE
    window_date BETWEEN DATE '${first_date}' AND DATE '${last_date}'
    AND order_time >= TIMESTAMP '${window_start}'
    AND order_time < TIMESTAMP '${window_end}'
