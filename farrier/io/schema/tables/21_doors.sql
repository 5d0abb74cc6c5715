-- The doors: server processes that answer other programs, so that no controller does.

-- One row for each running door, renewed every two seconds. A door that stops deletes its row. Controllers delete the row of a door
-- that has been silent for an hour.
CREATE TABLE farrier.doors (
    id         uuid        PRIMARY KEY,
    kind       text        NOT NULL,  -- pages: answers people and programs; agents: answers agents
    name       text        NOT NULL,  -- the name of its host
    release    text        NOT NULL,
    started_at timestamptz NOT NULL DEFAULT farrier.now(),
    renewed_at timestamptz NOT NULL DEFAULT farrier.now(),
    reached_at timestamptz            -- when the door last answered an agent; null if it has answered none
) WITH (fillfactor = 50);
