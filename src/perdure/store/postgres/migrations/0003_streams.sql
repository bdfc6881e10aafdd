-- What instances and their activities say while they work. What the columns mean is told in the
-- schema.sql of SQLite.

CREATE TABLE perdure.perdure_streams (
    part          SMALLINT NOT NULL,
    instance_id   TEXT COLLATE "C" NOT NULL,
    stream        TEXT COLLATE "C" NOT NULL,
    last_index    BIGINT NOT NULL,
    items         BIGINT NOT NULL,
    discards_from BIGINT,
    incarnation   BIGINT NOT NULL,
    execution     BIGINT NOT NULL,
    seq           BIGINT NOT NULL,
    attempt       BIGINT NOT NULL,
    token         BIGINT NOT NULL,
    at_ms         BIGINT NOT NULL,
    body          BYTEA NOT NULL,
    PRIMARY KEY (part, instance_id, stream, last_index)  -- read_stream, move_stream_rows
) WITH (fillfactor = 85);
-- find_void_rows, keep_stream_rows, find_stream_news. Empty where no activity sends.
CREATE INDEX perdure_streams_by_token
ON perdure.perdure_streams (part, instance_id, stream, token) WHERE token <> 0;

CREATE TABLE perdure.perdure_stream_heads (
    part        SMALLINT NOT NULL,
    instance_id TEXT COLLATE "C" NOT NULL,
    stream      TEXT COLLATE "C" NOT NULL,
    next_index  BIGINT NOT NULL,
    PRIMARY KEY (part, instance_id, stream)
) WITH (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
