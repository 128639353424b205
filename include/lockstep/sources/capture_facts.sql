-- What shows whether change capture is still the one that a stream began with; any role may ask.
-- to_jsonb: slots have failover since PostgreSQL 17.
SELECT
    (SELECT system_identifier FROM pg_control_system()) AS database_system,
    current_database() AS database_name,
    slot.slot_name IS NOT NULL AS has_slot,
    slot.wal_status,
    to_jsonb(slot) ->> 'invalidation_reason' AS invalidation_reason,
    (to_jsonb(slot) ->> 'failover')::boolean AS has_mark,
    (slot.restart_lsn - '0/0'::pg_lsn)::bigint AS restart_lsn,
    (slot.confirmed_flush_lsn - '0/0'::pg_lsn)::bigint AS confirmed_lsn,
    (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint AS current_lsn
FROM (SELECT) AS one
LEFT JOIN pg_replication_slots AS slot ON slot.slot_name = %(slot)s;
