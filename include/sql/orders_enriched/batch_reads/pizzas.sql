SELECT
    id,
    name,
    price
FROM pizzas
