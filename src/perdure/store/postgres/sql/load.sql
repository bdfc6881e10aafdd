-- Run the statements that load what a batch touches, in order: see tools/make_functions.py.
-- Params: names; keys, JSON of each. Returns: one array of JSON texts.
SELECT perdure.load_1(:names::text[], :keys::jsonb[]);
