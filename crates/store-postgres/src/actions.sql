-- Migration 6: what operators did, and calls that are paused.

-- What an operator did to an activity call, with what came of it. Written in the commit that
-- carries it out; until then it is a message of the kind 'Action'.
CREATE TABLE @action (
    shard    smallint NOT NULL,
    uid      uuid     NOT NULL,
    id       text COLLATE "C" NOT NULL,  -- an action that is asked for twice has the same
    run      bigint   NOT NULL,
    seq      bigint   NOT NULL,
    at       bigint   NOT NULL,
    by       text     NOT NULL,  -- who
    reason   text,               -- why, in their words
    what     text     NOT NULL,  -- the engine's part of it, as JSON
    encoding text,
    body     text,               -- the user's part: the value that a call was completed with
    changed  boolean  NOT NULL,  -- false when it was refused
    answer   text     NOT NULL,  -- what it changed, or why it changed nothing
    bad      text,
    PRIMARY KEY (shard, uid, id)
);

CREATE INDEX action_bad ON @action (shard) WHERE bad IS NOT NULL;

-- A paused call is a task whose `wake_at` is the end of time; why it is paused is in `progress`.
