-- Migration 10: policies that operators set for all calls of an activity.

-- One row for each activity for which a policy was ever set. A policy that was removed leaves its row,
-- so that calls whose wait it decided are decided about again.
CREATE TABLE resurgam_policy_override (
    activity TEXT    NOT NULL PRIMARY KEY,
    policy   TEXT,              -- in its stored form; null when there is none any more
    by       TEXT    NOT NULL,  -- who set it, or removed it
    reason   TEXT,              -- why, in their words
    at       INTEGER NOT NULL,
    revision INTEGER NOT NULL   -- counts the changes of this row
) STRICT;
