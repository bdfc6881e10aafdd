-- Load the numbers of all messages of instances, to see whether a turn has taken them all.
-- Params: keys, JSON [[part, instance_id], ...]. Returns: one JSON text, [[index of the key, no,
-- rank], ...].
-- ANY: see load_live.
SELECT coalesce(json_agg(json_build_array(
    wanted.position - 1, inbox.no, inbox.rank
)), '[]'::json)
FROM jsonb_array_elements(:keys::jsonb) WITH ORDINALITY AS wanted (value, position)
JOIN perdure.inbox
    ON inbox.part = ANY (ARRAY[(wanted.value ->> 0)::smallint])
   AND inbox.instance_id = wanted.value ->> 1;
