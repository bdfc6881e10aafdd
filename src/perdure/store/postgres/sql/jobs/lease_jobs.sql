-- Lease jobs that were just found, and count the attempt; one that still has a token was lost.
-- Params: keys, JSON [[part, instance_id, incarnation, execution, seq], ...]; token; worker_id;
-- until_ms. Returns: nothing.
-- ANY: see load_live.
UPDATE perdure.jobs
SET token = :token::bigint,
    worker_id = :worker_id::text,
    visible_at_ms = :until_ms::bigint,
    attempt = jobs.attempt + 1,
    lost = jobs.lost + (jobs.token <> 0)::int
FROM jsonb_array_elements(:keys::jsonb) AS claimed (value)
WHERE jobs.part = ANY (ARRAY[(claimed.value ->> 0)::smallint])
  AND jobs.instance_id = claimed.value ->> 1
  AND jobs.incarnation = (claimed.value ->> 2)::bigint
  AND jobs.execution = (claimed.value ->> 3)::bigint
  AND jobs.seq = (claimed.value ->> 4)::bigint;
