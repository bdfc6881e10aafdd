-- What instances and their activities say while they work. What the columns mean is told in
-- schema.sql.

CREATE TABLE perdure_streams (
    part          INTEGER NOT NULL,
    instance_id   TEXT NOT NULL,
    stream        TEXT NOT NULL,
    last_index    INTEGER NOT NULL,
    items         INTEGER NOT NULL,
    discards_from INTEGER,
    incarnation   INTEGER NOT NULL,
    execution     INTEGER NOT NULL,
    seq           INTEGER NOT NULL,
    attempt       INTEGER NOT NULL,
    token         INTEGER NOT NULL,
    at_ms         INTEGER NOT NULL,
    body          BLOB NOT NULL,
    UNIQUE (part, instance_id, stream, last_index)
) STRICT;
-- find_void_rows, keep_stream_rows, find_stream_news. Empty where no activity sends.
CREATE INDEX perdure_streams_by_token
ON perdure_streams (part, instance_id, stream, token) WHERE token <> 0;

CREATE TABLE perdure_stream_heads (
    part        INTEGER NOT NULL,
    instance_id TEXT NOT NULL,
    stream      TEXT NOT NULL,
    next_index  INTEGER NOT NULL,
    PRIMARY KEY (part, instance_id, stream)
) STRICT, WITHOUT ROWID;
