-- Who owns the tables, and the shop's application: `logins` in source.toml, whose passwords
-- `lockstep up` sets.
-- Run as the administrator; running it again changes nothing.
DO $$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['pizzeria_owner', 'shop'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
            EXECUTE format('CREATE ROLE %I LOGIN', wanted);
        END IF;
    END LOOP;
END;
$$;
