-- Have names looked for where the role or the database says, until the transaction ends.
-- Params: none. Returns: nothing.
SET LOCAL search_path TO DEFAULT;
