-- Migration 7: the column `lane` of tasks is called `gate`.

-- The gate that stands before the dependency an activity talks to. A lane is something else: one of
-- the connections that commit on PostgreSQL.
--
-- Renaming touches no row, and SQLite changes every index and view that names the column. It reads
-- the whole schema to do so and refuses to go on where it finds a view that does not work, even one
-- of the user's that needs a function of another program. With `writable_schema` it leaves such a
-- view as it is.
PRAGMA writable_schema = ON;
ALTER TABLE task RENAME COLUMN lane TO gate;
PRAGMA writable_schema = OFF;
