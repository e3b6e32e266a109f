-- Migration 4: the column `lane` of tasks is called `gate`.

-- The gate that stands before the dependency an activity talks to. A lane is something else: one of
-- the connections that commit, see the table `lane`. Renaming touches no row, and indexes and views
-- follow.
ALTER TABLE @task RENAME COLUMN lane TO gate;
