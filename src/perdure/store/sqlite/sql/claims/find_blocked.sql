-- Find blocked instances that code has not been tried on, per definition.
-- Params: definitions, JSON [[definition_no, code], ...], code being DIGEST/LIFE; max_tries; limit.
-- Returns: as find_turns.
-- One that has a wake_at_ms is being tried, or was given back: then find_turns finds it. When many
-- lives of a digest were of no use, the next one will not be.
SELECT json_group_array(json((
    SELECT json_group_array(json_array(
        blocked.part, blocked.instance_id, blocked.definition_no, blocked.incarnation,
        blocked.execution, blocked.next_seq, blocked.last_commit, blocked.attempts,
        blocked.last_no
    ))
    FROM (
        SELECT live.*
        FROM live INDEXED BY live_by_block
        WHERE live.definition_no = wanted.value ->> 0
          AND live.blocked_by IS NOT NULL
          AND live.blocked_by <> '*'
          AND live.blocked_by NOT LIKE '-%'
          AND live.wake_at_ms IS NULL
          AND instr(live.blocked_by, wanted.value ->> 1) = 0
          AND (length(live.blocked_by) - length(replace(live.blocked_by, ' ', '')) + 1 < :max_tries
               OR instr(live.blocked_by, substr(
                   wanted.value ->> 1, 1, instr(wanted.value ->> 1, '/')
               )) = 0)
        LIMIT :limit
    ) AS blocked
)))
FROM (SELECT value FROM json_each(:definitions) LIMIT -1) AS wanted
WHERE true;
