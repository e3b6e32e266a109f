-- Migration 2: nodes say which workflows they know, and instances that wait are found.

-- The workflows that a node can run, each with its version. A node leaves its shards to one that
-- knows all of its workflows and more; null for a program that does not say.
ALTER TABLE @node ADD COLUMN workflows text[] COLLATE "C";

-- `instance.error` says why an instance does not go on: the code of a run is broken (it is
-- blocked), or the node that works on it does not know its workflow (it runs, and waits). Few
-- instances are in here.
CREATE INDEX instance_held_up ON @instance (shard, uid)
    WHERE error IS NOT NULL AND closed_at IS NULL;
