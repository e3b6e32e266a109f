-- Migration 9: instances that operators pause.

-- Who paused an instance, when and why, while its status is 'paused'; and how long it was paused
-- so far, for which its timeouts stand still. JSON; NULL for one that never was.
ALTER TABLE instance ADD COLUMN pause TEXT;

-- An action on a run, and a message that asks for one, have the place 0: no event has it.
