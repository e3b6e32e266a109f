-- Migration 2: several processes on one file.

-- The node that works on this file, or worked on it last: who works now is told by the lock on the
-- file beside this one, whose name ends in -owner. A node writes its name here when it has that
-- lock. Each of its commits reads the name first, in the same transaction, so that one that was
-- overtaken can write nothing any more, however late its last commit arrives.
ALTER TABLE meta ADD COLUMN owner TEXT;

-- 1 while a message does not wake its instance: that is closed, or blocked and reads its messages
-- when it goes on. So nobody who looks for work steps over thousands of them.
ALTER TABLE message ADD COLUMN parked INTEGER NOT NULL DEFAULT 0;

DROP INDEX message_due;
CREATE INDEX message_due ON message (due_at) WHERE bad IS NULL AND parked = 0;
