-- Migration 16: what a server keeps beside the engine: statistics, logins, graphs, and what was done.

-- How attempts ended, by the minute. Statistics: nodes add what they counted every ten seconds, and
-- rows go after a week.
CREATE TABLE resurgam_pressure (
    minute       INTEGER NOT NULL,  -- when it began
    activity     TEXT    NOT NULL,
    failure_type TEXT    NOT NULL,  -- empty for attempts that succeeded
    failures     INTEGER NOT NULL,
    retries      INTEGER NOT NULL,
    exhausted    INTEGER NOT NULL,
    successes    INTEGER NOT NULL,
    PRIMARY KEY (minute, activity, failure_type)
) STRICT;

-- What a browser got for a token. Of what it sends only the hash is here.
CREATE TABLE resurgam_login (
    hash       TEXT    NOT NULL PRIMARY KEY,
    token      TEXT    NOT NULL,  -- the id of the token; empty for one that is stored nowhere
    bound      TEXT    NOT NULL,  -- ties it to that very token
    created_at INTEGER NOT NULL,
    ends_at    INTEGER NOT NULL
) STRICT;

CREATE INDEX resurgam_login_ends ON resurgam_login (ends_at);

-- Graphs that are started by their names.
CREATE TABLE resurgam_graph_template (
    name       TEXT    NOT NULL PRIMARY KEY,
    template   TEXT    NOT NULL,  -- JSON, without the secrets
    secrets    TEXT    NOT NULL,  -- JSON, by their names; in no answer of a server
    by         TEXT    NOT NULL,  -- who wrote it
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL
) STRICT;

-- What was done through a server and leaves no row of its own that says who and why: starts,
-- signals, schedules, gates, tokens. Rows go after 90 days.
CREATE TABLE resurgam_audit (
    at      INTEGER NOT NULL,
    id      TEXT    NOT NULL,
    by      TEXT    NOT NULL,  -- who
    token   TEXT,              -- the id of the token that let them in
    reason  TEXT,              -- why, in their words
    kind    TEXT    NOT NULL,  -- start, signal, schedule, ...
    subject TEXT    NOT NULL,  -- what it was done to
    told    TEXT    NOT NULL,  -- what was done, as a sentence
    PRIMARY KEY (at, id)
) STRICT;

CREATE UNIQUE INDEX resurgam_audit_id ON resurgam_audit (id);

-- Lists of one workflow are read status by status, the newest first, as those of all are.
CREATE INDEX instance_workflow ON instance (workflow, status, created_at);

-- Calls that wait to be tried again. A call that succeeds at once is never in here.
CREATE INDEX task_retrying ON task (uid)
    WHERE claimed_by IS NULL AND bad IS NULL AND attempt > 0 AND wake_at < 9223372036854775807;

-- What operators did, across instances.
CREATE INDEX resurgam_action_at ON resurgam_action (at, uid, id);
