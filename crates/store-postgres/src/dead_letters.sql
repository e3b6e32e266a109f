-- Migration 7: dead letters, and what paused calls are found by.

-- An activity call that failed for good, kept because its policy wants that. Written in the commit
-- that ends the call. It has everything that a decision about it needs, because it outlives its
-- instance: it goes when it has been there for as long as the app keeps letters.
CREATE TABLE @dead_letter (
    shard       smallint NOT NULL,
    uid         uuid     NOT NULL,
    run         bigint   NOT NULL,
    seq         bigint   NOT NULL,
    instance    text     NOT NULL,  -- the id of its instance
    workflow    text     NOT NULL,
    activity    text     NOT NULL,
    queue       text     NOT NULL,
    policy      text     NOT NULL,  -- policy.hash
    encoding    text     NOT NULL,
    input       text     NOT NULL,
    failure     text     NOT NULL,  -- what the workflow got, as JSON
    why         text     NOT NULL,  -- why retrying stopped
    attempts    bigint   NOT NULL,
    ledger      text     NOT NULL,  -- the first ten and the last ten attempts, as JSON
    at          bigint   NOT NULL,
    fingerprint text COLLATE "C" NOT NULL,  -- what it shares with those that failed in the same way
    error       text     NOT NULL,  -- that in words
    state       text COLLATE "C" NOT NULL,  -- open, redriven, discarded
    settled_at  bigint,
    settled_by  text,
    reason      text,               -- why they decided so, in their words
    redriven_as text,               -- the id of the instance that tries it again
    bad         text,
    PRIMARY KEY (shard, uid, run, seq)
);

CREATE INDEX dead_letter_state ON @dead_letter (state, at, uid, run, seq);
CREATE INDEX dead_letter_fingerprint ON @dead_letter (state, fingerprint, at, uid, run, seq);
CREATE INDEX dead_letter_at ON @dead_letter (at);
CREATE INDEX dead_letter_bad ON @dead_letter (shard) WHERE bad IS NOT NULL;

-- The fingerprint of a call while it is paused, and since when. Calls that are not paused are in
-- none of these indexes.
ALTER TABLE @task ADD COLUMN paused text COLLATE "C";
ALTER TABLE @task ADD COLUMN paused_at bigint;

UPDATE @task SET paused = '0:unknown',
                 paused_at = coalesce(substring(progress from '"since":([0-9]{1,18})')::bigint, 0)
WHERE wake_at = 9223372036854775807 AND progress LIKE '%"paused":{%';

CREATE INDEX task_paused ON @task (paused_at, uid, run, seq) WHERE paused IS NOT NULL;
CREATE INDEX task_paused_fingerprint ON @task (paused, paused_at, uid, run, seq)
    WHERE paused IS NOT NULL;
