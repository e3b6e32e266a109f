-- Migration 15: the gate of a call that was given up.

-- A call that is tried again as one of its own passes the gate that it was behind. Null for letters
-- from before: their calls were behind their activity's, as far as anybody knows.
ALTER TABLE resurgam_dead_letter ADD COLUMN gate TEXT;
