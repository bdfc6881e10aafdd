-- How several statements become one: a view of parameters that shows nothing, a trigger that runs
-- the statements when a row is inserted into it, the statement that inserts, and the one that
-- removes view and trigger.
-- It inserts nothing if what was decided on may not be so any more: another connection has committed
-- since the version was read, and a row is not as it was known. Known are a JSON text of live rows,
-- [[part, instance_id, column, ...], ...], and one of jobs, [[part, key, token], ...]; NULL where only
-- the version tells.
CREATE TEMP VIEW {view} ({columns}) AS
SELECT {nulls};
CREATE TEMP TRIGGER {view}_run INSTEAD OF INSERT ON {view}
BEGIN
{statements};
END;
INSERT INTO {view}
SELECT {places}
FROM (SELECT ? AS version, ? AS live_rows, ? AS job_rows) AS known
CROSS JOIN pragma_data_version AS now
WHERE now.data_version = known.version
   OR (
        known.live_rows IS NOT NULL
        AND NOT EXISTS (
            SELECT 1
            FROM (SELECT value FROM json_each(known.live_rows) LIMIT -1) AS wanted
            LEFT JOIN live
                ON live.part = wanted.value ->> 0
               AND live.instance_id = wanted.value ->> 1
            WHERE live.last_commit IS NOT wanted.value ->> 12
               OR live.last_no IS NOT wanted.value ->> 10
               OR live.wake_at_ms IS NOT wanted.value ->> 6
               OR live.lease IS NOT wanted.value ->> 7
               OR live.lease_until_ms IS NOT wanted.value ->> 8
               OR live.home IS NOT wanted.value ->> 9
               OR live.last_at_ms IS NOT wanted.value ->> 11
               OR live.attempts IS NOT wanted.value ->> 13
               OR live.blocked_by IS NOT wanted.value ->> 14
               OR live.definition_no IS NOT wanted.value ->> 2
               OR live.incarnation IS NOT wanted.value ->> 3
               OR live.execution IS NOT wanted.value ->> 4
               OR live.next_seq IS NOT wanted.value ->> 5
        )
        AND NOT EXISTS (
            SELECT 1
            FROM (SELECT value FROM json_each(known.job_rows) LIMIT -1) AS wanted
            LEFT JOIN jobs
                ON jobs.part = wanted.value ->> 0
               AND jobs.instance_id = wanted.value ->> 1
               AND jobs.incarnation = wanted.value ->> 2
               AND jobs.execution = wanted.value ->> 3
               AND jobs.seq = wanted.value ->> 4
            WHERE jobs.token IS NOT wanted.value ->> 5
        )
    );
DROP VIEW {view};
