-- Run the statements that load what a batch touches, in order: see tools/make_functions.py.
-- Params: names; keys, JSON of each. Returns: one array of JSON texts; the database's time after
-- that.
SELECT
    perdure.load_1(:names::text[], :keys::jsonb[]),
    floor(extract(EPOCH FROM clock_timestamp())::numeric * 1000::numeric)::bigint;
