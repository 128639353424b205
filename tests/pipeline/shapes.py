"""Queries of every allowed shape, over the source of histories.py. Each has the key id."""

from tests.project import PROJECT_DIR

PIZZERIA = (PROJECT_DIR / "include/sql/orders_enriched/query.sql").read_text(encoding="utf-8")

SHAPES = {
    "the fact alone": "SELECT id, upper(order_time) AS t FROM public.orders",
    "left join": """
        SELECT o.id, ta.table_id FROM orders AS o
        LEFT JOIN table_assignment AS ta ON ta.id = o.table_assignment_id""",
    "chain of left joins": """
        SELECT o.id, c.name, t.name AS table_name FROM orders o
        LEFT OUTER JOIN table_assignment ta ON o.table_assignment_id = ta.id
        LEFT JOIN clients c ON c.id = ta.client_id
        LEFT JOIN tables t ON t.id = ta.table_id""",
    "left join with more conditions": """
        SELECT o.id, i.amount FROM orders o
        LEFT JOIN items i ON i.order_id = o.id AND (i.amount > 1 OR i.pizza_id = 2)""",
    "left join by OR": """
        SELECT o.id, c.name FROM orders o
        LEFT JOIN clients c ON c.id = o.table_assignment_id OR c.name = 'a'""",
    "explode": """
        SELECT o.id, pizza_id FROM orders o LATERAL VIEW OUTER EXPLODE(o.pizzas) e AS pizza_id""",
    "posexplode, join, collected": """
        WITH listed AS (
            SELECT o.id, place, pizza_id FROM orders o
                LATERAL VIEW OUTER POSEXPLODE(o.pizzas) e AS place, pizza_id
        )
        SELECT listed.id,
            ARRAY_SORT(COLLECT_LIST(STRUCT(place, p.name)) FILTER (WHERE p.price > 30)) AS names
        FROM listed LEFT JOIN pizzas p ON p.id = listed.pizza_id
        GROUP BY listed.id""",
    "collected set": """
        WITH listed AS (
            SELECT o.id, x FROM orders o LATERAL VIEW OUTER EXPLODE(o.pizzas) e AS x
        )
        SELECT id, SORT_ARRAY(COLLECT_SET(x), FALSE) AS pizzas, COUNT(*) AS n
        FROM listed GROUP BY 1""",
    "children counted": """
        SELECT o.id, COUNT(i.id) AS n, SUM(i.amount * p.price) AS total FROM orders o
        LEFT JOIN items i ON i.order_id = o.id
        LEFT JOIN pizzas p ON p.id = i.pizza_id
        GROUP BY o.id""",
    "children aggregated before": """
        SELECT o.id, i.n, i.total FROM orders o
        LEFT JOIN (
            SELECT order_id, COUNT(*) AS n, SUM(amount) AS total FROM items GROUP BY order_id
        ) i ON i.order_id = o.id""",
    "children filtered and joined inside": """
        WITH priced AS (
            SELECT i.order_id, MAX(p.price) AS dearest FROM items i
            JOIN pizzas p ON p.id = i.pizza_id
            WHERE i.amount > 1 OR p.name = 'a'
            GROUP BY i.order_id
            HAVING COUNT(*) < 3
        )
        SELECT o.id, priced.dearest FROM orders o LEFT JOIN priced ON priced.order_id = o.id""",
    "window over children": """
        SELECT o.id, i.id AS item_id,
            ROW_NUMBER() OVER (PARTITION BY o.id ORDER BY i.amount DESC, i.id) AS place,
            SUM(i.amount) OVER (PARTITION BY o.id) AS total
        FROM orders o LEFT JOIN items i ON i.order_id = o.id""",
    "window of a dimension": """
        WITH ranked AS (
            SELECT c.id, c.name, RANK() OVER (PARTITION BY c.city ORDER BY c.name) AS place,
                LAG(c.name) OVER (PARTITION BY c.city ORDER BY c.name, c.id) AS before
            FROM clients c
        )
        SELECT o.id, r.name, r.place, r.before FROM orders o
        LEFT JOIN ranked r ON r.id = o.table_assignment_id""",
    "window without partition": """
        SELECT o.id, r.place, r.n FROM orders o
        LEFT JOIN (
            SELECT id, ROW_NUMBER() OVER (ORDER BY name, id) AS place, COUNT(*) OVER () AS n
            FROM pizzas
        ) r ON r.id = o.table_assignment_id""",
    "window by rows": """
        SELECT o.id, i.id AS item_id,
            SUM(i.amount) OVER (
                PARTITION BY o.id ORDER BY i.id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW
            ) AS near
        FROM orders o LEFT JOIN items i ON i.order_id = o.id""",
    "derived tables in each other": """
        SELECT o.id, d.n FROM orders o
        LEFT JOIN (
            SELECT e.city, COUNT(*) AS n FROM (
                SELECT c.city, c.name FROM clients c WHERE c.id > 0
            ) e LEFT JOIN plant.notes ON notes.city = e.city GROUP BY e.city
        ) d ON d.city = CASE WHEN o.id > 3 THEN 'Oslo' ELSE 'Rome' END""",
    "the fact in a derived table": """
        SELECT d.id, d.name FROM (
            SELECT o.id, c.name FROM orders o LEFT JOIN clients c ON c.id = o.table_assignment_id
        ) AS d""",
    "correlated scalar query": """
        SELECT o.id, (SELECT MAX(i.amount) FROM items i WHERE i.order_id = o.id) AS most
        FROM orders o""",
    "scalar query that counts": """
        SELECT o.id,
            (SELECT COUNT(*) FROM items i WHERE i.order_id = o.id AND i.amount > 1) AS n,
            (SELECT COUNT(*) FROM clients) AS every
        FROM orders o""",
    "scalar query with joins and OR": """
        SELECT o.id, (
            SELECT SUM(p.price) FROM items i INNER JOIN pizzas p ON p.id = i.pizza_id
            WHERE i.order_id = o.id AND (i.amount > 1 OR p.name = 'a')
        ) AS total FROM orders o""",
    "scalar query in an aggregate": """
        SELECT o.id, SUM((SELECT MAX(p.price) FROM pizzas p WHERE p.id = i.pizza_id)) AS total
        FROM orders o LEFT JOIN items i ON i.order_id = o.id GROUP BY o.id""",
    "scalar query over a derived table": """
        SELECT o.id, (
            SELECT MAX(d.n) FROM (
                SELECT i.order_id, i.pizza_id, COUNT(*) AS n FROM items i
                GROUP BY i.order_id, i.pizza_id
            ) d WHERE d.order_id = o.id
        ) AS most FROM orders o""",
    "a table joined with itself again": """
        SELECT o.id, a.id AS first_id, b.id AS second_id, c.id AS third_id
        FROM orders o
        LEFT JOIN items a ON a.id = o.id
        LEFT JOIN items b ON b.id = a.order_id
        LEFT JOIN items c ON c.id = b.order_id
    """,
    "exists": """
        SELECT o.id, EXISTS (SELECT 1 FROM items i WHERE i.order_id = o.id) AS has_items,
            NOT EXISTS (SELECT 1 FROM clients c WHERE c.id = o.table_assignment_id) AS is_unknown
        FROM orders o""",
    "in": """
        SELECT o.id, o.table_assignment_id IN (SELECT c.id FROM clients c) AS is_known,
            o.id IN (SELECT i.order_id FROM items i WHERE i.amount > 1) AS has_many
        FROM orders o""",
    "not in, with nulls": """
        SELECT o.id, o.table_assignment_id NOT IN (SELECT i.order_id FROM items i) AS is_free
        FROM orders o""",
    "exists inside a with query": """
        WITH used AS (
            SELECT p.id, p.name FROM pizzas p
            WHERE EXISTS (SELECT 1 FROM items i WHERE i.pizza_id = p.id)
        )
        SELECT o.id, used.name FROM orders o LEFT JOIN used ON used.id = o.table_assignment_id""",
    "semi and anti joins of dimensions": """
        SELECT o.id, s.name, a.name AS lonely FROM orders o
        LEFT JOIN (
            SELECT c.id, c.name FROM clients c LEFT SEMI JOIN plant.notes n ON n.city = c.city
        ) s ON s.id = o.table_assignment_id
        LEFT JOIN (
            SELECT c.id, c.name FROM clients c LEFT ANTI JOIN plant.notes n ON n.city = c.city
        ) a ON a.id = o.table_assignment_id""",
    "union all of dimensions": """
        SELECT o.id, u.name FROM orders o
        LEFT JOIN (
            SELECT id, name FROM clients
            UNION ALL
            SELECT id, name FROM tables WHERE name <> 'a'
        ) u ON u.id = o.table_assignment_id""",
    "union, except, intersect": """
        SELECT o.id, u.name, e.id AS alone, i.id AS both FROM orders o
        LEFT JOIN (SELECT name, id FROM clients UNION SELECT name, id FROM tables) u
            ON u.id = o.table_assignment_id
        LEFT JOIN (SELECT id FROM clients EXCEPT SELECT id FROM tables) e ON e.id = o.id
        LEFT JOIN (SELECT id FROM clients INTERSECT SELECT id FROM tables) i ON i.id = o.id""",
    "distinct in a derived table": """
        SELECT o.id, d.city FROM orders o
        LEFT JOIN (SELECT DISTINCT c.city FROM clients c) d
            ON LENGTH(d.city) = 4 AND o.table_assignment_id > 1""",
    "distinct on the way": """
        SELECT DISTINCT o.id, i.pizza_id FROM orders o LEFT JOIN items i ON i.order_id = o.id""",
    "count distinct and filter": """
        SELECT o.id, COUNT(DISTINCT i.pizza_id) AS kinds,
            MAX(i.amount) FILTER (WHERE i.pizza_id > 1) AS most
        FROM orders o LEFT JOIN items i ON i.order_id = o.id GROUP BY o.id""",
    "any value of the fact": """
        SELECT o.id, ANY_VALUE(o.pizzas) AS pizzas, COUNT(i.id) AS n
        FROM orders o LEFT JOIN items i ON i.order_id = o.id GROUP BY o.id""",
    "a with query used twice": """
        WITH cities AS (SELECT city, COUNT(*) AS n FROM clients GROUP BY city)
        SELECT o.id, a.n AS here, b.n AS there FROM orders o
        LEFT JOIN clients c ON c.id = o.table_assignment_id
        LEFT JOIN cities a ON a.city = c.city
        LEFT JOIN cities b ON b.city <=> c.city AND b.n > 1""",
    "lambdas and case": """
        SELECT o.id, AGGREGATE(o.pizzas, 0L, (sum, x) -> sum + COALESCE(x, o.id)) AS total,
            CASE WHEN c.name IS NULL THEN 'none' ELSE c.name END AS name
        FROM orders o LEFT JOIN clients c ON c.id = o.table_assignment_id""",
    "by range": """
        SELECT o.id, p.name FROM orders o
        LEFT JOIN pizzas p ON p.price > 10 * o.id AND p.price <= 10 * o.id + 20""",
}
