-- The stretch of a list that instances must lie in: older than a place, and not older than a time.
-- Params: before_ms, before_id; from_ms.
(instances.created_ms, instances.instance_id) < (:before_ms, :before_id)
AND instances.created_ms >= :from_ms
