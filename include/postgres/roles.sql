-- Roles without passwords: the stack sets those from its secrets, with the server's own hashing.
-- Run as the administrator in the pizzeria's database; running it again changes nothing.
DO $$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['pizzeria_owner', 'shop', 'batch_reader', 'cdc', 'airflow'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
            EXECUTE format('CREATE ROLE %I LOGIN', wanted);
        END IF;
    END LOOP;
END;
$$;
ALTER ROLE cdc REPLICATION;
