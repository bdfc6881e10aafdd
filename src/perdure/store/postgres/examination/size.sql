-- Return how much room the tables of a schema take, with their indexes.
-- Returns: one value, in bytes.
SELECT coalesce(sum(pg_catalog.pg_total_relation_size(relation.oid)), 0)::bigint
FROM pg_catalog.pg_class AS relation
JOIN pg_catalog.pg_namespace AS schema ON schema.oid = relation.relnamespace
WHERE schema.nspname = :schema::text
  AND relation.relkind = 'r';
