-- Migration 3: families, settings and deadlines.

-- What holds for an instance for as long as it lives: its retry policy, its timeouts. JSON.
ALTER TABLE instance ADD COLUMN settings TEXT NOT NULL DEFAULT '{}';
-- Whether what a failed instance did was undone: complete, incomplete.
ALTER TABLE instance ADD COLUMN compensation TEXT;
CREATE INDEX instance_compensation ON instance (compensation) WHERE compensation IS NOT NULL;
CREATE INDEX instance_schedule ON instance (schedule, created_at) WHERE schedule IS NOT NULL;

-- A signal that is sent twice with one request id is one signal, also when the first is long read
-- or its instance has given up the id.
CREATE INDEX event_signal ON event (json_extract(head, '$.id')) WHERE kind = 'SignalReceived';
CREATE INDEX message_signal ON message (id) WHERE kind = 'SignalReceived';
