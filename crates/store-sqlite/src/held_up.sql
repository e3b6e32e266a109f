-- Migration 6: instances that do not go on are found without reading the others.

-- `instance.error` says why: the code of a run is broken (it is blocked), or the process that works
-- on it does not know its workflow (it runs, and waits). Few instances are in here.
CREATE INDEX instance_held_up ON instance (uid) WHERE error IS NOT NULL AND closed_at IS NULL;
