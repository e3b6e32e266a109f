-- Migration 9: dead letters, and what paused calls are found by.

-- An activity call that failed for good, kept because its policy wants that. Written in the commit
-- that ends the call. It has everything that a decision about it needs, because it outlives its
-- instance: it goes when it has been there for as long as the app keeps letters.
CREATE TABLE resurgam_dead_letter (
    shard       INTEGER NOT NULL DEFAULT 0,
    uid         BLOB    NOT NULL,
    run         INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    instance    TEXT    NOT NULL,  -- the id of its instance
    workflow    TEXT    NOT NULL,
    activity    TEXT    NOT NULL,
    queue       TEXT    NOT NULL,
    policy      TEXT    NOT NULL,  -- policy.hash
    encoding    TEXT    NOT NULL,
    input       TEXT    NOT NULL,
    failure     TEXT    NOT NULL,  -- what the workflow got, as JSON
    why         TEXT    NOT NULL,  -- why retrying stopped
    attempts    INTEGER NOT NULL,
    ledger      TEXT    NOT NULL,  -- the first ten and the last ten attempts, as JSON
    at          INTEGER NOT NULL,
    fingerprint TEXT    NOT NULL,  -- what it shares with those that failed in the same way
    error       TEXT    NOT NULL,  -- that in words
    state       TEXT    NOT NULL,  -- open, redriven, discarded
    settled_at  INTEGER,
    settled_by  TEXT,
    reason      TEXT,              -- why they decided so, in their words
    redriven_as TEXT,              -- the id of the instance that tries it again
    bad         TEXT
) STRICT;

CREATE UNIQUE INDEX resurgam_dead_letter_call ON resurgam_dead_letter (uid, run, seq);
CREATE INDEX resurgam_dead_letter_state ON resurgam_dead_letter (state, at, uid, run, seq);
CREATE INDEX resurgam_dead_letter_fingerprint
    ON resurgam_dead_letter (state, fingerprint, at, uid, run, seq);
CREATE INDEX resurgam_dead_letter_at ON resurgam_dead_letter (at);
CREATE INDEX resurgam_dead_letter_bad ON resurgam_dead_letter (bad) WHERE bad IS NOT NULL;

-- The fingerprint of a call while it is paused, and since when. Calls that are not paused are in
-- none of these indexes.
ALTER TABLE task ADD COLUMN paused TEXT;
ALTER TABLE task ADD COLUMN paused_at INTEGER;

UPDATE task SET paused = '0:unknown',
                paused_at = coalesce(json_extract(progress, '$.paused.since'), 0)
WHERE wake_at = 9223372036854775807 AND json_extract(progress, '$.paused') IS NOT NULL;

CREATE INDEX task_paused ON task (paused_at, uid, run, seq) WHERE paused IS NOT NULL;
CREATE INDEX task_paused_fingerprint ON task (paused, paused_at, uid, run, seq)
    WHERE paused IS NOT NULL;
