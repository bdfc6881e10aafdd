-- Run the statements of a commit as a transaction, if the rows that it was decided on are still as
-- they were: see migrations/0001_start.sql.
-- Params: live_rows, JSON [[part, instance_id, xid, last_commit], ...], with the transaction that
-- wrote a row last; job_rows, JSON [[part, instance_id, incarnation, execution, seq, token], ...];
-- names; rows, JSON of each; bodies of each, or NULL; now_ms. Returns: the id of the transaction as
-- text, or NULL if they are not and nothing was written; the database's time after that.
SELECT
    perdure.write_known_1(
        :live_rows::jsonb,
        :job_rows::jsonb,
        :names::text[],
        :rows::jsonb[],
        :bodies::bytea[],
        :now_ms::bigint
    ),
    floor(extract(EPOCH FROM clock_timestamp())::numeric * 1000::numeric)::bigint;
