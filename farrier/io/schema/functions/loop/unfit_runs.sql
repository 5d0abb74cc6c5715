-- Returns the runs in section `runs` of a commit that are not among the fit ones, whose rows the writer has locked; for the
-- result of a writer. due_in is null if the resource still has the run's version: another transaction has locked it.
-- Otherwise, the run's snapshot is outdated, and the run is due again at once.
CREATE OR REPLACE FUNCTION farrier.unfit_runs(relation regclass, runs jsonb, fit bigint[]) RETURNS TABLE (run bigint, due_in interval)
    LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY EXECUTE format(
        'SELECT c.run, CASE WHEN r.id IS NULL THEN interval ''0'' END
           FROM jsonb_to_recordset($1) c (run bigint, version bigint)
           LEFT JOIN %s r ON r.id = c.run AND r.version = c.version
          WHERE c.run <> ALL ($2)', relation) USING runs, fit;
END $$;
