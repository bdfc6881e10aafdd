-- Put down what stands for the removed events of an execution.
-- Params: part, instance_id, incarnation, execution; kind; at_ms; body. Returns: nothing.
-- It belongs to no turn, so it has no commit.
INSERT INTO perdure.history (
    part, instance_id, incarnation, execution, seq, kind, at_ms, body, commit_id
)
VALUES (
    :part::smallint, :instance_id::text, :incarnation::bigint, :execution::bigint,
    2, :kind::text, :at_ms::bigint, :body::bytea, NULL
);
