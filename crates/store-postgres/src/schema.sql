-- Migration 1: every table of a Resurgam schema.
--
-- How to read it. An *instance* is what somebody started under an id. It has a history of *events*.
-- What it waits for is either a *task* (an activity call that is not finished) or a *message* (a
-- timer, a signal, a result that came while it slept). An *attempt* is a row of the ledger: a try
-- of an activity that did not succeed at once. These five tables are the engine, and they are the
-- same on SQLite. `node`, `shard` and `lane` say who works on what.
--
-- Rules that hold everywhere:
--
-- * The sign @ stands for the schema's name and a dot: nothing depends on a search path, which
--   would be state of a session that a pooler does not keep.
-- * Every start has a fresh `uid`, and everything else is keyed by it and never by the id. So
--   whatever arrives late for an earlier holder of an id misses the present one. It is of type
--   uuid: sixteen bytes without a header, compared as they are, and people can type it.
-- * `shard` follows from the uid (its last sixteen bits, which are a hash of the id; see meta) and
--   leads every key, so that each hot statement names its shards and several servers can share a
--   map of them. An id is unique beyond its shard; whoever places uids as they should be, and we
--   do, could add the shard there too.
-- * Users' values (`input`, `outcome`, `body`, `value`, `heartbeat`) are text with an encoding
--   beside them, never jsonb, which would change them: 'json', or 'json%' for text with a NUL
--   character, which PostgreSQL refuses; there % is written %25 and NUL is written %00.
-- * Times are milliseconds since 1970-01-01 UTC. Numbers that count start at 1.
-- * `arrival` orders rows by when they came. It is the server's clock in microseconds, raised above
--   every row of the same instance that is still there, so that what was acknowledged first is read
--   first even when the clock steps back. A sequence would need state that servers cannot share.
-- * `bad` says why a row could not be read. Such a row is set aside: it is skipped where work is
--   looked for, and nothing behind it waits. Marks are cleared when a program connects, so that a
--   newer one gets another look:  SELECT uid, bad FROM resurgam.task WHERE bad IS NOT NULL;
-- * No sequences, triggers, functions or foreign keys: a message may rightly outlive its instance,
--   and every check costs every step.
-- * Anybody may read all of it while nodes work. Others than nodes write to `inbox` and nowhere else.
-- * Text that is compared is in collation "C": no change of a system's locale breaks an index.

-- What this schema is. One row.
CREATE TABLE @meta (
    one        smallint PRIMARY KEY CHECK (one = 1),
    format     bigint   NOT NULL,  -- the number of the last migration
    min_reader bigint   NOT NULL,  -- programs that know fewer migrations must not touch the schema
    shards     smallint NOT NULL,
    hash       text     NOT NULL,  -- how ids are spread over shards
    made_by    text     NOT NULL   -- the version that applied the last migration
);

-- A process that works. It touches its own row only, about once a second; who has watched `beat`
-- stand still for a whole lease, by a clock of their own, knows that the node is dead.
CREATE TABLE @node (
    node       text COLLATE "C" PRIMARY KEY,
    beat       bigint NOT NULL,
    queues     text[] COLLATE "C", -- the queues it serves, null for all
    build      text,
    started_at bigint NOT NULL,
    pid        bigint NOT NULL,
    program    text   NOT NULL
) WITH (fillfactor = 50);

-- Who works on which shard. Written only when that changes, which raises the epoch. Each commit of
-- an owner locks the rows of its shards and looks for its name and its epoch: one that was
-- overtaken can write nothing any more, however late its last commit arrives.
CREATE TABLE @shard (
    shard smallint PRIMARY KEY,
    owner text COLLATE "C",        -- node.node, null while nobody works on it
    epoch bigint NOT NULL
) WITH (fillfactor = 50);

INSERT INTO @shard (shard, owner, epoch) SELECT n, NULL, 0 FROM generate_series(0, 255) AS n;

-- How many batches a connection has committed. Each commit counts up by one and first checks where
-- the count stands, so after a lost answer the row says whether the batch is in. A number that is
-- neither means that the database went back in time. The sum tells that somebody has written.
CREATE TABLE @lane (
    node text COLLATE "C" NOT NULL,  -- the writing store, by a name of its own
    lane smallint NOT NULL,
    n    bigint   NOT NULL,
    at   bigint   NOT NULL,          -- of the last commit, so that abandoned rows can go
    PRIMARY KEY (node, lane)
) WITH (fillfactor = 50);

-- What somebody started. Written at the start, at a change of status and at the close, never by the
-- steps between.
CREATE TABLE @instance (
    shard            smallint NOT NULL,
    uid              uuid     NOT NULL,
    id               text COLLATE "C" NOT NULL,      -- what the user calls it
    current          boolean  NOT NULL DEFAULT true, -- false when a later start took over the id
    arrival          bigint   NOT NULL,
    workflow         text     NOT NULL,
    status           text COLLATE "C" NOT NULL, -- running, completed, failed, cancelled, terminated, blocked
    run              bigint   NOT NULL,              -- which of its runs is the current one
    priority         integer  NOT NULL DEFAULT 0,
    queue            text     NOT NULL,
    request_id       text COLLATE "C",               -- a start repeated with it is the same one
    parent           uuid,                           -- the instance that started this one
    parent_run       bigint,
    parent_seq       bigint,
    root             uuid,                           -- the instance at the top of the family
    schedule         text COLLATE "C",               -- the id of the schedule that started it
    build            text,                           -- the build that it is pinned to
    settings         text     NOT NULL DEFAULT '{}', -- what holds for as long as it lives, JSON
    input_encoding   text     NOT NULL,
    input            text     NOT NULL,
    outcome_encoding text,
    outcome          text,                           -- the result, or the failure
    compensation     text COLLATE "C",               -- whether what it did was undone
    error            text,                           -- why it is blocked, for people
    created_at       bigint   NOT NULL,
    closed_at        bigint,
    bad              text,
    PRIMARY KEY (shard, uid)
);

-- Only the current holder of an id counts; earlier ones keep their rows.
CREATE UNIQUE INDEX instance_id ON @instance (id) WHERE current;
CREATE INDEX instance_earlier ON @instance (id) WHERE NOT current;
CREATE UNIQUE INDEX instance_request ON @instance (request_id) WHERE request_id IS NOT NULL;
-- Lists are read status by status, the newest first.
CREATE INDEX instance_status ON @instance (status, created_at, arrival);
CREATE INDEX instance_parent ON @instance (parent) WHERE parent IS NOT NULL;
CREATE INDEX instance_compensation ON @instance (compensation) WHERE compensation IS NOT NULL;
CREATE INDEX instance_schedule ON @instance (schedule, created_at, arrival)
    WHERE schedule IS NOT NULL;
-- What closed when, for deleting it.
CREATE INDEX instance_closed ON @instance (status, closed_at, arrival) WHERE closed_at IS NOT NULL;
CREATE INDEX instance_bad ON @instance (shard) WHERE bad IS NOT NULL;

-- What happened. Rows are added and never changed.
CREATE TABLE @event (
    shard    smallint NOT NULL,
    uid      uuid     NOT NULL,
    run      bigint   NOT NULL,
    seq      bigint   NOT NULL,  -- its place in the run, without gaps
    at       bigint   NOT NULL,
    kind     text     NOT NULL,  -- ActivityCompleted, TimerFired, ...
    head     text     NOT NULL,  -- the engine's part
    encoding text,
    body     text,               -- the user's part
    PRIMARY KEY (shard, uid, run, seq)
);

-- A signal that is sent twice with one request id is one signal, also when the first is long read.
-- A head with NUL in it is out of JSON's reach here, and no reason to refuse the event.
CREATE INDEX event_signal ON @event (shard, uid, (head::json ->> 'id'))
    WHERE kind = 'SignalReceived' AND strpos(head, '\u0000') = 0;

-- What wakes a run. A message is an event that has not happened yet, kept in the form of the event
-- it becomes; it goes in the commit of the turn that reads it.
CREATE TABLE @message (
    shard    smallint NOT NULL,
    uid      uuid     NOT NULL,
    id       text COLLATE "C" NOT NULL,      -- a message that comes twice has the same
    arrival  bigint   NOT NULL,
    due_at   bigint   NOT NULL,
    run      bigint,             -- timers and results belong to one run, signals to the instance
    kind     text     NOT NULL,  -- TimerFired, SignalReceived, ActivityCompleted, ...
    head     text     NOT NULL,
    encoding text,
    body     text,
    parked   boolean  NOT NULL DEFAULT false, -- true while it does not wake its instance
    bad      text,
    PRIMARY KEY (shard, uid, id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

CREATE INDEX message_arrival ON @message (shard, uid, arrival);
CREATE INDEX message_due ON @message (shard, due_at, arrival) WHERE bad IS NULL AND NOT parked;
CREATE INDEX message_bad ON @message (shard) WHERE bad IS NOT NULL;

-- An activity call that is not finished. Its arguments stay in its ActivityScheduled event.
CREATE TABLE @task (
    shard        smallint NOT NULL,
    uid          uuid     NOT NULL,
    run          bigint   NOT NULL,
    seq          bigint   NOT NULL,
    name         text     NOT NULL,
    queue        text COLLATE "C" NOT NULL,
    lane         text COLLATE "C" NOT NULL, -- the dependency it talks to
    priority     integer  NOT NULL,
    policy       text     NOT NULL, -- policy.hash
    attempt      bigint   NOT NULL, -- the one that runs or ran last, 0 before the first
    wake_at      bigint   NOT NULL,
    deadline_at  bigint,            -- when it has waited too long; null while an attempt runs
    claimed_by   text COLLATE "C",  -- the node that runs an attempt
    token        bigint,            -- what that attempt's report must carry
    started_at   bigint,            -- when that attempt began
    progress     text     NOT NULL, -- counters for the next decision
    encoding     text,
    heartbeat    text,              -- what the activity reported last
    heartbeat_at bigint,
    bad          text,
    state        text GENERATED ALWAYS AS (
        CASE WHEN bad IS NOT NULL THEN 'bad'
             WHEN claimed_by IS NOT NULL THEN 'running'
             WHEN attempt > 0 THEN 'retrying'
             ELSE 'waiting' END) STORED,
    PRIMARY KEY (shard, uid, run, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

-- Due work, without touching a row that is being worked on: of all queues, and of some.
CREATE INDEX task_due ON @task (shard, wake_at, lane) WHERE claimed_by IS NULL AND bad IS NULL;
CREATE INDEX task_queue ON @task (shard, queue, wake_at) WHERE claimed_by IS NULL AND bad IS NULL;
-- Few calls have a deadline: the others are not in here and cost nothing.
CREATE INDEX task_deadline ON @task (shard, deadline_at)
    WHERE deadline_at IS NOT NULL AND claimed_by IS NULL AND bad IS NULL;
CREATE INDEX task_claimed ON @task (shard, claimed_by) WHERE claimed_by IS NOT NULL;
CREATE INDEX task_bad ON @task (shard) WHERE bad IS NOT NULL;

-- The ledger: how attempts ended. Bounded for each call: the first ten and the newest stay.
CREATE TABLE @attempt (
    shard      smallint NOT NULL,
    uid        uuid     NOT NULL,
    run        bigint   NOT NULL,
    seq        bigint   NOT NULL,
    place      bigint   NOT NULL,  -- which row of its call's ledger this is, dropped ones counted
    name       text     NOT NULL,
    attempt    bigint   NOT NULL,
    outcome    text     NOT NULL,  -- completed, failed, lost, interrupted, snoozed, cancelled
    started_at bigint   NOT NULL,
    ended_at   bigint   NOT NULL,
    failure    text,               -- JSON
    delay_ms   bigint,             -- the delay that was chosen
    why        text     NOT NULL,  -- how it was chosen, in words
    bad        text,
    PRIMARY KEY (shard, uid, run, seq, place)
);

CREATE INDEX attempt_bad ON @attempt (shard) WHERE bad IS NOT NULL;

-- Retry policies, each text once.
CREATE TABLE @policy (
    hash text COLLATE "C" PRIMARY KEY,
    text text NOT NULL
);

-- An instance's own data.
CREATE TABLE @kv (
    shard    smallint NOT NULL,
    uid      uuid     NOT NULL,
    key      text COLLATE "C" NOT NULL,
    encoding text     NOT NULL,
    value    text     NOT NULL,
    PRIMARY KEY (shard, uid, key)
);

-- What people look instances up by. Lists by tag are read the newest first, without looking at what
-- has another tag; so the times of the instance stand here too.
CREATE TABLE @tag (
    shard      smallint NOT NULL,
    uid        uuid     NOT NULL,
    name       text COLLATE "C" NOT NULL,
    value      text COLLATE "C" NOT NULL,
    created_at bigint   NOT NULL,
    arrival    bigint   NOT NULL,
    PRIMARY KEY (shard, uid, name)
);

CREATE INDEX tag_value ON @tag (name, value, created_at, arrival);

-- What starts instances again and again. Its shard follows from its id as that of an instance does.
CREATE TABLE @schedule (
    shard      smallint NOT NULL,
    id         text COLLATE "C" NOT NULL,
    workflow   text     NOT NULL,
    queue      text     NOT NULL,  -- stands in the options too; for people
    encoding   text     NOT NULL,
    input      text     NOT NULL,
    rule       text     NOT NULL,  -- when, as JSON
    options    text     NOT NULL,  -- how its instances are started, as JSON
    state      text     NOT NULL,  -- what it remembers, as JSON
    paused     boolean  NOT NULL,
    next_at    bigint,             -- when it is to be looked at next
    waits      boolean  NOT NULL,  -- true while it waits for something else than the time
    last       text COLLATE "C",   -- the id of the instance that it started last
    error      text,               -- why it does not fire, for people
    created_at bigint   NOT NULL,
    revision   bigint   NOT NULL,  -- random, another one with every write; also when it is made anew
    bad        text,
    PRIMARY KEY (shard, id)
);

CREATE INDEX schedule_next ON @schedule (shard, next_at)
    WHERE next_at IS NOT NULL AND NOT paused AND bad IS NULL;
CREATE INDEX schedule_waits ON @schedule (id) WHERE waits AND bad IS NULL;
CREATE INDEX schedule_id ON @schedule (id);
CREATE INDEX schedule_bad ON @schedule (shard) WHERE bad IS NOT NULL;

-- For everybody who speaks SQL: a row inserted here, in a transaction of their own, starts an
-- instance, signals one or cancels one. Owners take rows in order and leave refused ones with the
-- reason. Whoever inserts leaves out `arrival`, `shard` and `encoding`.
--
-- `shard` spreads the rows over owners: those of one instance have the same, so that they are routed
-- one after another. It is not the shard of that instance, which SQL cannot compute.
-- `arrival` is the server's clock in microseconds. Should two rows have the same, whoever reads them
-- first sets them apart.
CREATE TABLE @inbox (
    arrival  bigint NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    shard    smallint GENERATED ALWAYS AS ((hashtextextended(instance, 0) & 255)::smallint) STORED,
    id       text COLLATE "C",                 -- a row that comes twice has the same
    instance text COLLATE "C" NOT NULL,        -- the id of the instance
    kind     text   NOT NULL,                  -- start, signal, cancel
    name     text,                             -- of the workflow, or of the signal
    encoding text   NOT NULL DEFAULT 'json',
    body     text,
    at       bigint,                           -- for whoever inserts; nobody reads it here
    error    text                              -- why it was refused
);

CREATE INDEX inbox_new ON @inbox (arrival) WHERE error IS NULL;

-- The ids of rows that were taken, and when, for as long as they are remembered.
CREATE TABLE @inbox_seen (
    id text COLLATE "C" PRIMARY KEY,
    at bigint NOT NULL
);

CREATE INDEX inbox_seen_at ON @inbox_seen (at);
