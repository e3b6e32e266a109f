-- Migration 5: which timeline of the server this schema was last worked on.

-- A standby that is promoted begins a new timeline. The first node that works on one leaves a mark:
-- the cluster (`system_identifier`), the timeline, and a random name. A server on a lower timeline
-- is an old primary; one on the same timeline without the mark is the other side of a fork. Null
-- until a node has connected that knows of this, and where a server does not tell.
ALTER TABLE @meta ADD COLUMN system bigint, ADD COLUMN timeline bigint, ADD COLUMN mark text;
