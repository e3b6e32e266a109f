-- Migration 16: remote workers.

-- What a server has heard from a session of a remote worker, so that the others know that it is
-- there. Rows of sessions that nobody heard of for long go.
CREATE TABLE @worker_session (
    session  text COLLATE "C" NOT NULL,                -- what the worker calls it
    server   text COLLATE "C" NOT NULL,                -- which server heard from it
    heard_at bigint NOT NULL,
    about    text   NOT NULL,                          -- JSON
    PRIMARY KEY (session, server)
);

-- What workers said about the activities that they offer, so that calls are made by that also when
-- no worker has spoken yet. A row goes a week after somebody offered the activity last.
CREATE TABLE @remote_activity (
    name       text COLLATE "C" NOT NULL PRIMARY KEY,
    offered_at bigint NOT NULL,
    offer      text   NOT NULL                         -- JSON
);
