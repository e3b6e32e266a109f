-- Migration 1: every table of a Resurgam database.
--
-- How to read it. An *instance* is what somebody started under an id. It has a history of *events*.
-- What it waits for is either a *task* (an activity call that is not finished) or a *message* (a
-- timer, a signal, a result that came while it slept). An *attempt* is a row of the ledger: a try
-- of an activity that did not succeed at once. These five tables are the engine.
--
-- Rules that hold everywhere:
--
-- * Every start has a fresh `uid`, sixteen bytes, and everything else is keyed by it and never by
--   the id. So whatever arrives late for an earlier holder of an id misses the present one.
-- * Tables keep SQLite's own rowid and have unique indexes beside it. `WITHOUT ROWID` stores whole
--   rows inside the index, which is three times slower for rows as long as JSON makes them.
-- * Users' values (`input`, `outcome`, `body`, `value`, `heartbeat`) are text with an encoding
--   beside them: 'json' today. The engine forwards them and never looks inside. What it must read
--   stands in columns of its own, or in a small JSON `head` whose unknown fields are ignored.
-- * Times are milliseconds since 1970-01-01 UTC. Numbers that count start at 1.
-- * `bad` says why a row could not be read. Such a row is set aside: it is skipped where work is
--   looked for, and nothing behind it waits. Marks are cleared when the database is opened, so that
--   a newer program gets another look:  SELECT uid, bad FROM task WHERE bad IS NOT NULL;
-- * `shard` is 0 on SQLite: one file has one owner. The column keeps the tables equal to those of
--   PostgreSQL.
-- * No foreign keys: a message may rightly outlive its instance, and checking costs every step.
--
-- Migrations only add. Columns that nothing uses yet stand here already when every row of a large
-- table would otherwise have to be touched later.

-- What this database is. One row.
CREATE TABLE meta (
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    format     INTEGER NOT NULL,  -- the number of the last migration
    min_reader INTEGER NOT NULL,  -- programs that know fewer migrations must not touch the file
    shards     INTEGER NOT NULL,
    hash       TEXT    NOT NULL,  -- how ids are spread over shards
    made_by    TEXT    NOT NULL   -- the version that applied the last migration
) STRICT;

-- What somebody started. Written at the start, at a change of status and at the close, never by the
-- steps between.
CREATE TABLE instance (
    shard            INTEGER NOT NULL DEFAULT 0,
    uid              BLOB    NOT NULL,
    id               TEXT    NOT NULL,            -- what the user calls it
    current          INTEGER NOT NULL DEFAULT 1,  -- 0 when a later start took over the id
    workflow         TEXT    NOT NULL,
    status           TEXT    NOT NULL,            -- running, completed, failed, cancelled, terminated, blocked
    run              INTEGER NOT NULL,            -- which of its runs is the current one
    priority         INTEGER NOT NULL DEFAULT 0,
    queue            TEXT    NOT NULL,
    request_id       TEXT,                        -- a start repeated with it is the same one
    parent           BLOB,                        -- the uid of the instance that started this one
    parent_run       INTEGER,
    parent_seq       INTEGER,
    root             BLOB,                        -- the uid at the top of the family
    schedule         TEXT,                        -- the id of the schedule that started it
    build            TEXT,                        -- the build of the program that it is pinned to
    input_encoding   TEXT    NOT NULL,
    input            TEXT    NOT NULL,
    outcome_encoding TEXT,
    outcome          TEXT,                        -- the result, or the failure
    error            TEXT,                        -- why it is blocked, for people
    created_at       INTEGER NOT NULL,
    closed_at        INTEGER,
    bad              TEXT
) STRICT;

CREATE UNIQUE INDEX instance_uid ON instance (uid);
-- Only the current holder of an id counts; earlier ones keep their rows.
CREATE UNIQUE INDEX instance_id ON instance (id) WHERE current = 1;
CREATE UNIQUE INDEX instance_request ON instance (request_id) WHERE request_id IS NOT NULL;
-- Lists are read status by status, the newest first.
CREATE INDEX instance_status ON instance (status, created_at);
CREATE INDEX instance_parent ON instance (parent) WHERE parent IS NOT NULL;
CREATE INDEX instance_bad ON instance (bad) WHERE bad IS NOT NULL;

-- What happened. Rows are added and never changed.
CREATE TABLE event (
    shard    INTEGER NOT NULL DEFAULT 0,
    uid      BLOB    NOT NULL,
    run      INTEGER NOT NULL,
    seq      INTEGER NOT NULL,  -- its place in the run, without gaps
    at       INTEGER NOT NULL,
    kind     TEXT    NOT NULL,  -- ActivityCompleted, TimerFired, ...
    head     TEXT    NOT NULL,  -- the engine's part
    encoding TEXT,
    body     TEXT               -- the user's part
) STRICT;

CREATE UNIQUE INDEX event_seq ON event (uid, run, seq);

-- What wakes a run. A message is an event that has not happened yet, kept in the form of the event
-- it becomes; it goes in the commit of the turn that reads it. `arrival` is the order of arrival.
CREATE TABLE message (
    arrival  INTEGER PRIMARY KEY,
    shard    INTEGER NOT NULL DEFAULT 0,
    uid      BLOB    NOT NULL,
    id       TEXT    NOT NULL,  -- a message that comes twice has the same
    due_at   INTEGER NOT NULL,
    run      INTEGER,           -- timers and results belong to one run, signals to the instance
    kind     TEXT    NOT NULL,  -- TimerFired, SignalReceived, ActivityCompleted, ...
    head     TEXT    NOT NULL,
    encoding TEXT,
    body     TEXT,
    bad      TEXT
) STRICT;

CREATE UNIQUE INDEX message_id ON message (uid, id);
CREATE INDEX message_due ON message (due_at) WHERE bad IS NULL;
CREATE INDEX message_bad ON message (bad) WHERE bad IS NOT NULL;

-- An activity call that is not finished. Its arguments stay in its ActivityScheduled event.
CREATE TABLE task (
    shard      INTEGER NOT NULL DEFAULT 0,
    uid        BLOB    NOT NULL,
    run        INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    queue      TEXT    NOT NULL,
    lane       TEXT    NOT NULL,  -- the dependency it talks to
    priority   INTEGER NOT NULL,
    policy     TEXT    NOT NULL,  -- policy.hash
    attempt    INTEGER NOT NULL,  -- the one that runs or ran last, 0 before the first
    wake_at    INTEGER NOT NULL,
    claimed_by TEXT,              -- the node that runs an attempt
    token      INTEGER,           -- what that attempt's report must carry
    started_at INTEGER,           -- when that attempt began
    progress   TEXT    NOT NULL,  -- counters for the next decision
    encoding   TEXT,
    heartbeat  TEXT,              -- what the activity reported last
    bad        TEXT,
    state      TEXT    GENERATED ALWAYS AS (
        CASE WHEN bad IS NOT NULL THEN 'bad'
             WHEN claimed_by IS NOT NULL THEN 'running'
             WHEN attempt > 0 THEN 'retrying'
             ELSE 'waiting' END) VIRTUAL
) STRICT;

CREATE UNIQUE INDEX task_seq ON task (uid, run, seq);
-- Due work, without touching a row that is being worked on.
CREATE INDEX task_due ON task (wake_at, lane) WHERE claimed_by IS NULL AND bad IS NULL;
CREATE INDEX task_claimed ON task (claimed_by) WHERE claimed_by IS NOT NULL;
CREATE INDEX task_bad ON task (bad) WHERE bad IS NOT NULL;

-- The ledger: how attempts ended. Bounded for each call: the first ten and the newest stay.
CREATE TABLE attempt (
    shard      INTEGER NOT NULL DEFAULT 0,
    uid        BLOB    NOT NULL,
    run        INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    place      INTEGER NOT NULL,  -- which row of its call's ledger this is, dropped ones counted
    name       TEXT    NOT NULL,
    attempt    INTEGER NOT NULL,
    outcome    TEXT    NOT NULL,  -- completed, failed, lost, interrupted, snoozed, cancelled
    started_at INTEGER NOT NULL,
    ended_at   INTEGER NOT NULL,
    failure    TEXT,              -- JSON
    delay_ms   INTEGER,           -- the delay that was chosen
    why        TEXT    NOT NULL,  -- how it was chosen, in words
    bad        TEXT
) STRICT;

CREATE UNIQUE INDEX attempt_place ON attempt (uid, run, seq, place);
CREATE INDEX attempt_bad ON attempt (bad) WHERE bad IS NOT NULL;

-- Retry policies, each text once.
CREATE TABLE policy (
    hash TEXT NOT NULL,
    text TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX policy_hash ON policy (hash);

-- An instance's own data.
CREATE TABLE kv (
    shard    INTEGER NOT NULL DEFAULT 0,
    uid      BLOB    NOT NULL,
    key      TEXT    NOT NULL,
    encoding TEXT    NOT NULL,
    value    TEXT    NOT NULL
) STRICT;

CREATE UNIQUE INDEX kv_key ON kv (uid, key);

-- What people look instances up by.
CREATE TABLE tag (
    shard INTEGER NOT NULL DEFAULT 0,
    uid   BLOB    NOT NULL,
    name  TEXT    NOT NULL,
    value TEXT    NOT NULL
) STRICT;

CREATE UNIQUE INDEX tag_name ON tag (uid, name);
CREATE INDEX tag_value ON tag (name, value);

-- What starts instances again and again.
CREATE TABLE schedule (
    shard      INTEGER NOT NULL DEFAULT 0,
    id         TEXT    NOT NULL,
    workflow   TEXT    NOT NULL,
    queue      TEXT    NOT NULL,
    rule       TEXT    NOT NULL,  -- when, as JSON
    encoding   TEXT    NOT NULL,
    input      TEXT    NOT NULL,
    paused     INTEGER NOT NULL DEFAULT 0,
    next_at    INTEGER,
    last_at    INTEGER,
    created_at INTEGER NOT NULL,
    error      TEXT
) STRICT;

CREATE UNIQUE INDEX schedule_id ON schedule (id);
CREATE INDEX schedule_next ON schedule (next_at) WHERE next_at IS NOT NULL AND paused = 0;

-- For everybody who speaks SQL: a row inserted here, in a transaction of their own, starts an
-- instance or signals one. The owner takes rows in order and leaves refused ones with the reason.
CREATE TABLE inbox (
    arrival  INTEGER PRIMARY KEY,
    id       TEXT,              -- a row that comes twice has the same
    instance TEXT    NOT NULL,  -- the id of the instance
    kind     TEXT    NOT NULL,  -- start, signal, cancel
    name     TEXT,              -- of the workflow, or of the signal
    encoding TEXT    NOT NULL DEFAULT 'json',
    body     TEXT,
    at       INTEGER,
    error    TEXT               -- why it was refused
) STRICT;

CREATE UNIQUE INDEX inbox_id ON inbox (id) WHERE id IS NOT NULL;
CREATE INDEX inbox_new ON inbox (arrival) WHERE error IS NULL;
