-- Migration 12: bulk jobs.

-- One action of an operator on many calls, or on many runs. The row is written with each page of
-- messages that ask for the action, so that no call is asked for twice whatever crashes. It goes when
-- it has been over for as long as the app keeps jobs.
CREATE TABLE resurgam_bulk (
    shard      INTEGER NOT NULL DEFAULT 0,
    id         TEXT    NOT NULL PRIMARY KEY,
    filter     TEXT    NOT NULL,  -- which calls, or which runs, as JSON
    action     TEXT    NOT NULL,  -- what is done to each, as JSON
    options    TEXT    NOT NULL,  -- how it goes about it, as JSON
    cursor     TEXT,              -- behind which call, or instance, it goes on
    counts     TEXT    NOT NULL,  -- how far it has come, as JSON
    page       TEXT    NOT NULL,  -- what was asked for last and is not counted yet, as JSON
    by         TEXT    NOT NULL,  -- who wants it
    reason     TEXT,              -- why, in their words
    stopped_by TEXT,              -- who stopped it
    error      TEXT,              -- why it ended before it was done, for people
    created_at INTEGER NOT NULL,
    closed_at  INTEGER,           -- when it was over
    revision   INTEGER NOT NULL   -- how often it was written
) STRICT;

CREATE INDEX resurgam_bulk_created ON resurgam_bulk (created_at, id);
CREATE INDEX resurgam_bulk_open ON resurgam_bulk (created_at, id) WHERE closed_at IS NULL;
CREATE INDEX resurgam_bulk_closed ON resurgam_bulk (closed_at) WHERE closed_at IS NOT NULL;
