-- List every id that has rows in a table which is read id by id.
-- Params: none. Returns: instance_id.
SELECT instance_id FROM instances
UNION
SELECT instance_id FROM live
UNION
SELECT instance_id FROM history
UNION
SELECT instance_id FROM inbox
UNION
SELECT instance_id FROM jobs
UNION
SELECT instance_id FROM kv
UNION
SELECT instance_id FROM reports
UNION
SELECT instance_id FROM dead_jobs;
