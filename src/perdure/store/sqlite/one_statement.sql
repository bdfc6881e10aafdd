-- How several statements become one: a view of parameters that shows nothing, a trigger that runs
-- the statements when a row is inserted into it, the statement that inserts, and the one that
-- removes view and trigger. It inserts nothing if another connection has committed since the version
-- was read.
CREATE TEMP VIEW {view} ({columns}) AS
SELECT {nulls};
CREATE TEMP TRIGGER {view}_run INSTEAD OF INSERT ON {view}
BEGIN
{statements};
END;
INSERT INTO {view}
SELECT {places} FROM pragma_data_version WHERE data_version = ?;
DROP VIEW {view};
