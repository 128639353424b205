-- What the quality checks look at: a row of scalars for each order of a window, and for each row
-- its run or repairs wrote outside of it, among the days from first_date to last_date. Run by
-- delta-rs (DataFusion).
WITH candidates AS (
    SELECT *
    FROM orders_enriched_batch
    WHERE
        window_date BETWEEN DATE '${first_date}' AND DATE '${last_date}'
        AND (
            (
                order_time >= TIMESTAMP '${window_start}'
                AND order_time < TIMESTAMP '${window_end}'
            )
            OR run_id IN ('${run_ids}')
        )
),

ordered_pizzas AS (
    SELECT
        order_id,
        unnest(pizzas) AS item
    FROM candidates
),

pizzas_of_order AS (
    SELECT
        order_id,
        count(*) AS pizza_count,
        count(*) FILTER (WHERE item['pizza'] IS NULL) AS unknown_pizzas,
        count(*) FILTER (
            WHERE item['pizza'] IS NOT NULL AND item['price'] IS NULL
        ) AS missing_prices,
        min(cast(item['price'] AS DOUBLE)) AS lowest_price,
        max(cast(item['price'] AS DOUBLE)) AS highest_price
    FROM ordered_pizzas
    GROUP BY order_id
)

SELECT
    candidates.order_id,
    candidates.order_time,
    pizzas_of_order.lowest_price,
    pizzas_of_order.highest_price,
    candidates.window_date = cast(candidates.order_time AS DATE) AS is_in_its_partition,
    coalesce(pizzas_of_order.pizza_count, 0) AS pizza_count,
    coalesce(pizzas_of_order.unknown_pizzas, 0) AS unknown_pizzas,
    coalesce(pizzas_of_order.missing_prices, 0) AS missing_prices,
    arrow_cast(candidates.client_name, 'Dictionary(Int32, Utf8)') AS client_name,
    arrow_cast(candidates.table_name, 'Dictionary(Int32, Utf8)') AS table_name, -- noqa: RF04
    arrow_cast(coalesce(candidates.run_id, 'none'), 'Dictionary(Int32, Utf8)') AS run_id
FROM candidates
LEFT JOIN pizzas_of_order ON candidates.order_id IS NOT DISTINCT FROM pizzas_of_order.order_id
