-- Migration 4: schedules that fire, an inbox that is emptied, closed instances that go.

-- How its instances are started: queue, priority, tags, settings. JSON.
ALTER TABLE schedule ADD COLUMN options TEXT NOT NULL DEFAULT '{}';
-- What it remembers: up to when it has decided, what waits, counters. JSON.
ALTER TABLE schedule ADD COLUMN state TEXT NOT NULL DEFAULT '{}';
-- Which change of any schedule made it what it is. A change that follows from another is refused.
ALTER TABLE schedule ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
ALTER TABLE meta ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
-- The id of the instance that it started last.
ALTER TABLE schedule ADD COLUMN last TEXT;
-- 1 while it waits for something else than the time: see `state` and `error`.
ALTER TABLE schedule ADD COLUMN waits INTEGER NOT NULL DEFAULT 0;
ALTER TABLE schedule ADD COLUMN bad TEXT;

DROP INDEX schedule_next;
CREATE INDEX schedule_next ON schedule (next_at)
    WHERE next_at IS NOT NULL AND paused = 0 AND bad IS NULL;
CREATE INDEX schedule_waits ON schedule (id) WHERE waits = 1 AND bad IS NULL;
CREATE INDEX schedule_bad ON schedule (bad) WHERE bad IS NOT NULL;

-- A row that comes twice is dropped by the owner; it must not fail the transaction of whoever
-- inserts it.
DROP INDEX inbox_id;

-- The ids of rows that were taken, and when, for as long as they are remembered.
CREATE TABLE inbox_seen (
    id TEXT    NOT NULL,
    at INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX inbox_seen_id ON inbox_seen (id);
CREATE INDEX inbox_seen_at ON inbox_seen (at);

-- What closed when, for deleting it.
CREATE INDEX instance_closed ON instance (status, closed_at) WHERE closed_at IS NOT NULL;

-- Lists by tag are read the newest first, without looking at what has another tag.
ALTER TABLE tag ADD COLUMN created_at INTEGER NOT NULL DEFAULT 0;
UPDATE tag SET created_at =
    coalesce((SELECT created_at FROM instance WHERE instance.uid = tag.uid), 0);
DROP INDEX tag_value;
CREATE INDEX tag_value ON tag (name, value, created_at);
