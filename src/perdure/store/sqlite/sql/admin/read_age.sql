-- Tell when the instance was created that is so many places older than a place.
-- Params: before_ms, before_id (the place); places. Returns: created_ms, or no row if there are not
-- so many.
SELECT created_ms
FROM instances INDEXED BY instances_by_age
WHERE (created_ms, instance_id) < (:before_ms, :before_id)
ORDER BY created_ms DESC, instance_id DESC
LIMIT 1 OFFSET :places;
