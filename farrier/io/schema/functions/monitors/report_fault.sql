-- Returns why a report of a monitor is not taken, with the verdict, or nulls. alike is how many nodes the report may mean. A monitor
-- may always end its own conditions. Called by record_reports.
CREATE OR REPLACE FUNCTION farrier.report_fault(
    granted farrier.monitors, node text, alike bigint, site text, id text, target text, message text, effect text, expires_at timestamptz,
    ends boolean, OUT verdict text, OUT reason text)
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
BEGIN
    verdict := 'unmapped';
    reason := CASE
        WHEN id = '' THEN 'the report names no condition'
        WHEN coalesce(node, '') = '' THEN 'the report names no node'
        WHEN alike = 0 THEN format('no node is %L', left(plain_text(node), 100))
        WHEN alike > 1 THEN format('%s nodes are %L', alike, left(plain_text(node), 100))
        END;
    IF reason IS NOT NULL THEN RETURN; END IF;
    verdict := 'malformed';
    reason := coalesce(
        'the id ' || text_fault(id, 1, 128), 'the target ' || text_fault(target, 0, 128), 'the message ' || text_fault(message, 0, 500),
        CASE WHEN effect NOT IN ('note', 'quarantine') THEN format('the effect must be note or quarantine, not %L', left(plain_text(effect), 40))
             WHEN NOT ends AND expires_at NOT BETWEEN farrier.now() AND farrier.now() + interval '30 days'
             THEN format('expires_at must be within the next 30 days, not %s', expires_at) END);
    IF reason IS NOT NULL THEN RETURN; END IF;
    verdict := 'forbidden';
    reason := CASE
        WHEN ends THEN NULL
        WHEN NOT fits_pattern(coalesce(site, ''), granted.sites) THEN format('monitor %s may not state conditions of nodes of site %L', granted.name, coalesce(site, ''))
        WHEN NOT fits_pattern(id, granted.ids) THEN format('monitor %s may not state the condition %L', granted.name, id)
        WHEN effect = 'quarantine' AND granted.effect = 'note' THEN format('monitor %s may request at most the effect note, not quarantine', granted.name)
        END;
    IF reason IS NULL THEN verdict := NULL; END IF;
END $$;
