-- Migration 12: gates, and kinds of calls that are paused.

-- What is known of a gate beside the settings that programs bring: what operators set, and what was
-- decided. A gate without a row flows. What was decided is written by the node that holds shard 0,
-- under that shard's epoch.
CREATE TABLE @gate (
    key             text COLLATE "C" NOT NULL PRIMARY KEY, -- or a prefix of keys, which settings are for
    settings        text,              -- what an operator set, in its stored form
    settings_by     text,              -- who set it, or removed it
    settings_reason text,              -- why, in their words
    settings_at     bigint,
    hand            text,              -- what an operator made of it: shut, open, auto
    hand_by         text,
    hand_reason     text,
    hand_at         bigint,
    hand_until      bigint,            -- when it decides again by itself
    decided         text,              -- what was decided, as JSON
    revision        bigint   NOT NULL  -- counts the changes of this row
) WITH (fillfactor = 50);

-- What a node counted at a gate in one second. Written while something fails there, or while it does
-- not flow.
CREATE TABLE @gate_count (
    gate   text COLLATE "C" NOT NULL,
    at     bigint           NOT NULL,  -- when the second began
    node   text COLLATE "C" NOT NULL,
    counts text             NOT NULL,  -- as JSON
    PRIMARY KEY (gate, at, node)
);

CREATE INDEX gate_count_at ON @gate_count (at);

-- Activities and queues of which no attempt begins.
CREATE TABLE @hold (
    kind   text COLLATE "C" NOT NULL,  -- activity, queue
    name   text COLLATE "C" NOT NULL,
    by     text   NOT NULL,            -- who paused it
    reason text,                       -- why, in their words
    since  bigint NOT NULL,
    PRIMARY KEY (kind, name)
);

-- Due work behind a gate. While every gate flows, due work is found by time alone (task_due and
-- task_queue).
CREATE INDEX task_gate ON @task (shard, gate, wake_at) WHERE claimed_by IS NULL AND bad IS NULL;
CREATE INDEX task_queue_gate ON @task (shard, queue, gate, wake_at)
    WHERE claimed_by IS NULL AND bad IS NULL;
