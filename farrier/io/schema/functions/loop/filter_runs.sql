-- Returns the part of changes that belongs to these runs, without sections that then have no elements; an empty object if none of
-- the runs has a part. changes is an object of arrays, the sections, whose elements name their run; see begin_commit.
CREATE OR REPLACE FUNCTION farrier.filter_runs(changes jsonb, runs bigint[]) RETURNS jsonb
    LANGUAGE sql STABLE
    RETURN (SELECT coalesce(jsonb_object_agg(section.key, section.kept), '{}') FROM (
        SELECT e.key, (SELECT jsonb_agg(c) FROM jsonb_array_elements(e.value) c WHERE (c ->> 'run')::bigint = ANY (runs)) AS kept
          FROM jsonb_each(changes) e) section WHERE section.kept IS NOT NULL);
