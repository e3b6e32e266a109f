-- Migration 4: calls that wait have a deadline, and heartbeats a time.

-- When a call that waits has waited too long: its queue timeout or its total timeout passes. NULL
-- without one, and while an attempt runs: its node watches over that itself.
ALTER TABLE task ADD COLUMN deadline_at INTEGER;
-- When the activity reported what is in `heartbeat`.
ALTER TABLE task ADD COLUMN heartbeat_at INTEGER;

-- Few calls have a deadline: the others are not in here and cost nothing.
CREATE INDEX task_deadline ON task (deadline_at)
    WHERE deadline_at IS NOT NULL AND claimed_by IS NULL AND bad IS NULL;
