-- Keep events from being given their positions until the transaction ends.
-- Params: none. Returns: a row.
-- While it is held, an event is in feed_new or in feed and stays there, so that one statement can
-- find it in both. It waits for the one that gives positions; others that hold it are no hindrance.
SELECT 1
FROM perdure.feed_counter
WHERE part = 0
FOR SHARE;
