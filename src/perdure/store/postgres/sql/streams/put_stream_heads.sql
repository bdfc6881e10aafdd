-- Give indexes to items of streams.
-- Params: rows, JSON [[part, instance_id, stream, items], ...]. Returns: nothing.
-- A sender to the same stream waits here until the other has committed: so indexes are in the
-- order of commits.
INSERT INTO perdure.perdure_stream_heads (part, instance_id, stream, next_index)
SELECT (value ->> 0)::smallint, value ->> 1, value ->> 2, 1 + (value ->> 3)::bigint
FROM jsonb_array_elements(:rows::jsonb)
ON CONFLICT (part, instance_id, stream) DO UPDATE SET
    next_index = perdure_stream_heads.next_index + excluded.next_index - 1;
