-- Hand events to the feed, in the order of the rows; they get their positions later.
-- Params: rows, JSON [[part, instance_id, incarnation, execution, seq, definition_no, tag, version,
-- cause, correlation], ...]. Returns: nothing.
-- The numbers are given after the sort.
INSERT INTO perdure.feed_new (
    part, instance_id, incarnation, execution, seq, definition_no, tag, version, cause, correlation
)
SELECT
    (fed.value ->> 0)::smallint, fed.value ->> 1, (fed.value ->> 2)::bigint,
    (fed.value ->> 3)::bigint, (fed.value ->> 4)::bigint, (fed.value ->> 5)::bigint,
    fed.value ->> 6, (fed.value ->> 7)::bigint, fed.value ->> 8, fed.value ->> 9
FROM jsonb_array_elements(:rows::jsonb) WITH ORDINALITY AS fed (value, position)
ORDER BY fed.position;
