-- How many orders each slot of the window holds: read in the index alone, it shows where to cut
-- the window into parts of equal size, and how many orders the table must hold afterwards.
SELECT
    date_bin({slot}, order_time, {start}) AS slot_start,
    count(*) AS orders
FROM orders
WHERE order_time >= {start} AND order_time < {end}
GROUP BY slot_start
ORDER BY slot_start
