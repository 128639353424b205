-- The depot's application. It has no password: what works for it takes its role by SET ROLE.
-- Run as the administrator; running it again changes nothing.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'depot_clerk') THEN
        CREATE ROLE depot_clerk NOLOGIN;
    END IF;
END;
$$;
