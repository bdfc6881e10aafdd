-- Give jobs that were found stranded a time that comes, if they still are as they were.
-- Params: rows, JSON [[part, instance_id, incarnation, execution, seq, visible_at_ms, token,
-- rest_ms], ...], as found; now_ms; until_ms (when leases end that their holders do not renew).
-- Returns: nothing.
-- ANY: see load_live.
UPDATE perdure.jobs
SET visible_at_ms = CASE jobs.token
    WHEN 0 THEN :now_ms::bigint + found.rest_ms
    ELSE :until_ms::bigint
END
FROM (
    SELECT given.value, (given.value ->> 7)::bigint AS rest_ms
    FROM jsonb_array_elements(:rows::jsonb) AS given (value)
) AS found
WHERE jobs.part = ANY (ARRAY[(found.value ->> 0)::smallint])
  AND jobs.instance_id = found.value ->> 1
  AND jobs.incarnation = (found.value ->> 2)::bigint
  AND jobs.execution = (found.value ->> 3)::bigint
  AND jobs.seq = (found.value ->> 4)::bigint
  AND jobs.visible_at_ms = (found.value ->> 5)::bigint
  AND jobs.token = (found.value ->> 6)::bigint;
