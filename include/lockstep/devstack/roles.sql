-- Roles without passwords: the stack sets those from its secrets, with the server's own hashing.
-- Run as the administrator; running it again changes nothing.
DO $$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['batch_reader', 'cdc', 'airflow'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
            EXECUTE format('CREATE ROLE %I LOGIN', wanted);
        END IF;
    END LOOP;
END;
$$;
ALTER ROLE cdc REPLICATION;

-- A run reads with several connections, one of which holds the snapshot. If a TRUNCATE or ALTER TABLE
-- comes between, it waits for the snapshot, and the others wait for it: for ever, since the server sees
-- no circle in that. So a reader gives up; the run fails, and is repeated.
ALTER ROLE batch_reader SET lock_timeout = '30s';
