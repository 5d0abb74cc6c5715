-- Returns the outages that ended after `since`: those of the controllers, or those of the doors and of the agents that use them.
-- Called by the load of a node that waited in one.
CREATE OR REPLACE FUNCTION farrier.outages_since(since timestamptz, of_doors boolean) RETURNS json
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT json_agg(json_build_object('pulse', o.pulse, 'began_at', lower(t), 'ended_at', upper(t)) ORDER BY t)
              FROM farrier.outages o CROSS JOIN unnest(o.times) t
             WHERE (o.pulse <> 'controllers') = of_doors AND upper(t) > since);
END $$;
