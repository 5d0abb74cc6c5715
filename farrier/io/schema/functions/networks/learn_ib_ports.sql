-- Records the InfiniBand ports that an agent reports when it enrolls, unless set_ib_ports has set them. Ignores a malformed report
-- and a report with a port of another node, because neither may keep the machine out of service. AFTER INSERT or UPDATE trigger on
-- node_agents.
CREATE OR REPLACE FUNCTION farrier.learn_ib_ports() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    reported text[];
BEGIN
    IF jsonb_typeof(NEW.facts -> 'ib_guids') <> 'array' THEN RETURN NULL; END IF;
    reported := ARRAY(SELECT DISTINCT right(lower(g), 16) FROM jsonb_array_elements_text(NEW.facts -> 'ib_guids') g
                       WHERE g ~* E'\\A(0x)?[0-9a-f]{16}\\Z' ORDER BY 1);
    IF cardinality(reported) = 0 OR NOT are_guids(reported)
       OR EXISTS (SELECT FROM node_ib_ports p WHERE p.guids && reported AND p.node <> NEW.node_id) THEN
        RETURN NULL;
    END IF;
    INSERT INTO node_ib_ports AS p VALUES (NEW.node_id, reported, false)
        ON CONFLICT (node) DO UPDATE SET guids = excluded.guids WHERE NOT p.given;
    RETURN NULL;
END $$;
