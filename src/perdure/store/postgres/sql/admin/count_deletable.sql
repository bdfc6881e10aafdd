-- Count which incarnations are present and may be removed: ended, or forced.
-- Params: keys, JSON [[part, instance_id, incarnation], ...]; force. Returns: how many.
SELECT count(*)
FROM jsonb_array_elements(:keys::jsonb) AS wanted (value)
JOIN perdure.instances
    ON instances.part = (wanted.value ->> 0)::smallint
   AND instances.instance_id = wanted.value ->> 1
   AND instances.incarnation = (wanted.value ->> 2)::bigint
WHERE :force::boolean OR instances.ended_ms IS NOT NULL;
