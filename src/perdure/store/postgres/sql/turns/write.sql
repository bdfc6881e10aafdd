-- Run the statements of a commit, in order: see tools/make_functions.py.
-- Params: names; rows, JSON of each; bodies of each, or NULL; now_ms. Returns: the id of the
-- transaction as text, to ask what became of it if the answer to the commit is lost.
SELECT pg_current_xact_id()::text
FROM perdure.write_1(:names::text[], :rows::jsonb[], :bodies::bytea[], :now_ms::bigint);
