-- Migration 9: policies that operators set for all calls of an activity.

-- One row for each activity for which a policy was ever set. A policy that was removed leaves its row,
-- so that calls whose wait it decided are decided about again.
CREATE TABLE @policy_override (
    activity text COLLATE "C" NOT NULL PRIMARY KEY,
    policy   text,              -- in its stored form; null when there is none any more
    by       text     NOT NULL, -- who set it, or removed it
    reason   text,              -- why, in their words
    at       bigint   NOT NULL,
    revision bigint   NOT NULL  -- counts the changes of this row
);
