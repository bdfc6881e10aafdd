-- Run the statements of a commit, in order: see tools/make_functions.py.
-- Params: names; rows, JSON of each; bodies of each, or NULL; now_ms. Returns: nothing.
SELECT perdure.write_1(:names::text[], :rows::jsonb[], :bodies::bytea[], :now_ms::bigint);
