-- Migration 8: calls that may kill their process.
--
-- A call whose attempts were lost with their process several times in a row is marked in its progress;
-- a node runs one of these at a time, and claims one at a time of those that their holder leaves to
-- others. There are few of them, and usually none: all others are not in here.
CREATE INDEX task_poison ON @task (shard, wake_at)
    WHERE claimed_by IS NULL AND bad IS NULL AND strpos(progress, '"poison":') > 0;
