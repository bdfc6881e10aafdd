-- Keep other processes from migrating until this transaction ends.
-- Params: key, a number made of the schema's name. Returns: one value.
SELECT pg_advisory_xact_lock(1885696612, (:key::bigint - 2147483648)::integer);
