-- Migration 3: tasks that lack something.
--
-- A node that knows an activity and still cannot run a call, because a key is missing, for example,
-- writes down in the task's progress what it lacks. Any node that has it claims the task, whoever
-- holds its shard. There are few of them, and usually none: all others are not in here.
CREATE INDEX task_lacking ON @task (shard, wake_at)
    WHERE claimed_by IS NULL AND bad IS NULL AND strpos(progress, '"lacks":') > 0;
