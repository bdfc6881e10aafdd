-- Return the number that marks the file as a perdure store.
-- Params: none. Returns: one value.
PRAGMA application_id;
