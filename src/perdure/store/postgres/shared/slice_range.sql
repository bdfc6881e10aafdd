-- The ids of a range, in order of their parts.
-- Params: after_part, after_id; to_part, to_id.
(part, instance_id) > (:after_part::smallint, :after_id::text)
AND (part, instance_id) <= (:to_part::smallint, :to_id::text)
