-- Migration 13: gates, and kinds of calls that are paused.

-- What is known of a gate beside the settings that programs bring: what operators set, and what was
-- decided. A gate without a row flows.
CREATE TABLE resurgam_gate (
    key             TEXT    NOT NULL PRIMARY KEY,  -- or a prefix of keys, which settings are for
    settings        TEXT,              -- what an operator set, in its stored form
    settings_by     TEXT,              -- who set it, or removed it
    settings_reason TEXT,              -- why, in their words
    settings_at     INTEGER,
    hand            TEXT,              -- what an operator made of it: shut, open, auto
    hand_by         TEXT,
    hand_reason     TEXT,
    hand_at         INTEGER,
    hand_until      INTEGER,           -- when it decides again by itself
    decided         TEXT,              -- what the owner decided, as JSON
    revision        INTEGER NOT NULL   -- counts the changes of this row
) STRICT;

-- What a node counted at a gate in one second. Written while something fails there, or while it does
-- not flow.
CREATE TABLE resurgam_gate_count (
    gate   TEXT    NOT NULL,
    at     INTEGER NOT NULL,  -- when the second began
    node   TEXT    NOT NULL,
    counts TEXT    NOT NULL,  -- as JSON
    PRIMARY KEY (gate, at, node)
) STRICT;

CREATE INDEX resurgam_gate_count_at ON resurgam_gate_count (at);

-- Activities and queues of which no attempt begins.
CREATE TABLE resurgam_hold (
    kind   TEXT    NOT NULL,  -- activity, queue
    name   TEXT    NOT NULL,
    by     TEXT    NOT NULL,  -- who paused it
    reason TEXT,              -- why, in their words
    since  INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT;

-- Due work behind a gate. While every gate flows, due work is found by time alone (task_due).
CREATE INDEX task_gate ON task (gate, wake_at) WHERE claimed_by IS NULL AND bad IS NULL;
