-- Migration 15: what a server keeps beside the engine: statistics, logins, graphs, and what was done.

-- How attempts ended, by the minute. Statistics: nodes add what they counted every ten seconds, and
-- rows go after a week.
CREATE TABLE @pressure (
    minute       bigint NOT NULL,            -- when it began
    activity     text COLLATE "C" NOT NULL,
    failure_type text COLLATE "C" NOT NULL,  -- empty for attempts that succeeded
    failures     bigint NOT NULL,
    retries      bigint NOT NULL,
    exhausted    bigint NOT NULL,
    successes    bigint NOT NULL,
    PRIMARY KEY (minute, activity, failure_type)
) WITH (fillfactor = 50);

-- What a browser got for a token. Of what it sends only the hash is here.
CREATE TABLE @login (
    hash       text COLLATE "C" NOT NULL PRIMARY KEY,
    token      text   NOT NULL,  -- the id of the token; empty for one that is stored nowhere
    bound      text   NOT NULL,  -- ties it to that very token
    created_at bigint NOT NULL,
    ends_at    bigint NOT NULL
);

CREATE INDEX login_ends ON @login (ends_at);

-- Graphs that are started by their names.
CREATE TABLE @graph_template (
    name       text COLLATE "C" NOT NULL PRIMARY KEY,
    template   text   NOT NULL,  -- JSON, without the secrets
    secrets    text   NOT NULL,  -- JSON, by their names; in no answer of a server
    by         text   NOT NULL,  -- who wrote it
    created_at bigint NOT NULL,
    changed_at bigint NOT NULL
);

-- What was done through a server and leaves no row of its own that says who and why: starts,
-- signals, schedules, gates, tokens. Rows go after 90 days.
CREATE TABLE @audit (
    at      bigint NOT NULL,
    id      text COLLATE "C" NOT NULL,
    by      text   NOT NULL,  -- who
    token   text,             -- the id of the token that let them in
    reason  text,             -- why, in their words
    kind    text   NOT NULL,  -- start, signal, schedule, ...
    subject text   NOT NULL,  -- what it was done to
    told    text   NOT NULL,  -- what was done, as a sentence
    PRIMARY KEY (at, id)
);

CREATE UNIQUE INDEX audit_id ON @audit (id);

-- Lists of one workflow are read status by status, the newest first, as those of all are.
CREATE INDEX instance_workflow ON @instance (workflow, status, created_at, arrival);

-- Calls that wait to be tried again. A call that succeeds at once is never in here.
CREATE INDEX task_retrying ON @task (shard, uid)
    WHERE claimed_by IS NULL AND bad IS NULL AND attempt > 0 AND wake_at < 9223372036854775807;

-- What operators did, across instances.
CREATE INDEX action_at ON @action (at, uid, id);
