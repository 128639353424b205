-- Which of these roles there are, and what they may do. Any role may ask.
SELECT
    role.rolname AS role_name,
    role.rolcanlogin OR role.rolsuper AS may_sign_in,
    role.rolreplication OR role.rolsuper AS may_replicate,
    has_database_privilege(role.oid, current_database(), 'CONNECT') AS may_connect
FROM pg_roles AS role
WHERE role.rolname = ANY(%(roles)s)
