-- Find rows of streams whose instance ended before a time, the first of each stream first.
-- Params: before_ms; limit. Returns: one JSON text, [[part, instance_id, stream, last_index], ...].
-- Looks at every stream, so it is no part of a transaction that writes. LIMIT: so that instances
-- and rows are looked up one by one, however many there are by the statistics.
SELECT coalesce(
    json_agg(json_build_array(found.part, found.instance_id, found.stream, found.last_index)),
    '[]'::json
)
FROM (
    SELECT heads.part, heads.instance_id, heads.stream, sent.last_index
    FROM perdure.perdure_stream_heads AS heads
    CROSS JOIN LATERAL (
        SELECT 1
        FROM perdure.instances
        WHERE instances.part = heads.part
          AND instances.instance_id = heads.instance_id
          AND instances.ended_ms < :before_ms::bigint
          AND instances.created_ms < :before_ms::bigint
        LIMIT 1
    ) AS ended
    CROSS JOIN LATERAL (
        SELECT streams.last_index
        FROM perdure.perdure_streams AS streams
        WHERE streams.part = heads.part
          AND streams.instance_id = heads.instance_id
          AND streams.stream = heads.stream
        ORDER BY streams.last_index
        LIMIT :limit::bigint
    ) AS sent
    LIMIT :limit::bigint
) AS found;
