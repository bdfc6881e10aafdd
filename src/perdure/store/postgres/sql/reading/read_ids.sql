-- List every id that has rows in a table which is read id by id.
-- Params: none. Returns: instance_id.
SELECT instance_id FROM perdure.instances
UNION
SELECT instance_id FROM perdure.live
UNION
SELECT instance_id FROM perdure.history
UNION
SELECT instance_id FROM perdure.inbox
UNION
SELECT instance_id FROM perdure.jobs
UNION
SELECT instance_id FROM perdure.kv
UNION
SELECT instance_id FROM perdure.reports
UNION
SELECT instance_id FROM perdure.dead_jobs
ORDER BY instance_id;
