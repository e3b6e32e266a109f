-- Migration 11: bulk jobs.

-- One action of an operator on many calls, or on many runs. The row is written with each page of
-- messages that ask for the action, so that no call is asked for twice whatever crashes. It goes when
-- it has been over for as long as the app keeps jobs. Its shard follows from its id as that of an
-- instance does: the node that holds it works on the job.
CREATE TABLE @bulk (
    shard      smallint NOT NULL,
    id         text COLLATE "C" NOT NULL,
    filter     text     NOT NULL,  -- which calls, or which runs, as JSON
    action     text     NOT NULL,  -- what is done to each, as JSON
    options    text     NOT NULL,  -- how it goes about it, as JSON
    cursor     text,               -- behind which call, or instance, it goes on
    counts     text     NOT NULL,  -- how far it has come, as JSON
    page       text     NOT NULL,  -- what was asked for last and is not counted yet, as JSON
    by         text     NOT NULL,  -- who wants it
    reason     text,               -- why, in their words
    stopped_by text,               -- who stopped it
    error      text,               -- why it ended before it was done, for people
    created_at bigint   NOT NULL,
    closed_at  bigint,             -- when it was over
    revision   bigint   NOT NULL,  -- how often it was written
    PRIMARY KEY (shard, id)
) WITH (fillfactor = 50);

CREATE INDEX bulk_created ON @bulk (created_at, id);
CREATE INDEX bulk_open ON @bulk (created_at, id) WHERE closed_at IS NULL;
CREATE INDEX bulk_closed ON @bulk (closed_at) WHERE closed_at IS NOT NULL;
