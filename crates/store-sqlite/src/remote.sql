-- Migration 17: remote workers.

-- What a server has heard from a session of a remote worker, so that the others know that it is
-- there. Rows of sessions that nobody heard of for long go.
CREATE TABLE resurgam_worker_session (
    session  TEXT    NOT NULL,                -- what the worker calls it
    server   TEXT    NOT NULL,                -- which server heard from it
    heard_at INTEGER NOT NULL,
    about    TEXT    NOT NULL,                -- JSON
    PRIMARY KEY (session, server)
) STRICT, WITHOUT ROWID;

-- What workers said about the activities that they offer, so that calls are made by that also when
-- no worker has spoken yet. A row goes a week after somebody offered the activity last.
CREATE TABLE resurgam_remote_activity (
    name       TEXT    NOT NULL PRIMARY KEY,
    offered_at INTEGER NOT NULL,
    offer      TEXT    NOT NULL               -- JSON
) STRICT, WITHOUT ROWID;
