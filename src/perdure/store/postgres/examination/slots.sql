-- Find replication slots that keep old rows or WAL from being removed and that no client reads.
-- Returns: name, whether it is being read, age of its oldest transaction, bytes of WAL it keeps.
SELECT
    slot_name::text,
    active,
    greatest(age(xmin), age(catalog_xmin)),
    CASE
        WHEN NOT pg_catalog.pg_is_in_recovery()
            THEN pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), restart_lsn)::bigint
    END
FROM pg_catalog.pg_replication_slots
WHERE xmin IS NOT NULL
   OR catalog_xmin IS NOT NULL
   OR restart_lsn IS NOT NULL
ORDER BY slot_name
LIMIT 100;
