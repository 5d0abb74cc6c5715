-- Returns the part of `changes` that belongs to runs other than `runs`; see filter_runs.
CREATE OR REPLACE FUNCTION farrier.runs_without(changes jsonb, runs bigint[]) RETURNS jsonb
    LANGUAGE sql STABLE
    RETURN farrier.filter_runs(changes, ARRAY(
        SELECT c.run FROM jsonb_to_recordset(changes -> 'runs') c (run bigint) WHERE c.run <> ALL (runs)));
