"""The example: a pizzeria's application over PostgreSQL, and the demonstration of its pipeline."""
