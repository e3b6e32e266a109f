-- Migration 8: what operators did, and calls that are paused.

-- What an operator did to an activity call, with what came of it. Written in the commit that
-- carries it out; until then it is a message of the kind 'Action'. Its name begins as those of
-- tables do that came after the first release, so that it meets no table of the user's.
CREATE TABLE resurgam_action (
    shard    INTEGER NOT NULL DEFAULT 0,
    uid      BLOB    NOT NULL,
    id       TEXT    NOT NULL,  -- an action that is asked for twice has the same
    run      INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    by       TEXT    NOT NULL,  -- who
    reason   TEXT,              -- why, in their words
    what     TEXT    NOT NULL,  -- the engine's part of it, as JSON
    encoding TEXT,
    body     TEXT,              -- the user's part: the value that a call was completed with
    changed  INTEGER NOT NULL,  -- 0 when it was refused
    answer   TEXT    NOT NULL,  -- what it changed, or why it changed nothing
    bad      TEXT
) STRICT;

CREATE UNIQUE INDEX resurgam_action_id ON resurgam_action (uid, id);
CREATE INDEX resurgam_action_bad ON resurgam_action (bad) WHERE bad IS NOT NULL;

-- A paused call is a task whose `wake_at` is the end of time; why it is paused is in `progress`.
