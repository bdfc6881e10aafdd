-- Which commit wrote each turn, so that it can be told for ever whether a turn was accepted.

ALTER TABLE perdure.history ADD COLUMN commit_id BIGINT;
