-- Refuse live rows that were just made for ids without an instance, if there is one after all.
-- Params: keys, JSON [[part, instance_id], ...]. Returns: nothing.
-- An instance may have begun and ended between our look at it and our insert. Inserting the row a
-- second time is a unique violation: the batch is undone, and run again with what is there now.
INSERT INTO perdure.live (
    part, instance_id, incarnation, execution, next_seq, lease, lease_until_ms, last_no, last_at_ms,
    last_commit, attempts
)
SELECT instances.part, instances.instance_id, 0, 0, 0, 0, 0, 0, 0, 0, 0
FROM jsonb_array_elements(:keys::jsonb) AS made (value)
JOIN perdure.instances
    ON instances.part = ANY (ARRAY[(made.value ->> 0)::smallint])
   AND instances.instance_id = made.value ->> 1;
