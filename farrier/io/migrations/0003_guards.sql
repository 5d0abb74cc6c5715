-- Whoever writes, with whatever rights: no edge that the model lacks, no first value it does not know, and no node
-- status beside a workflow that it does not go with. Edges and mapping are filled from farrier.model.

CREATE FUNCTION farrier.refuse_edge(layer text, id bigint, from_value text, to_value text) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'node %: the model has no edge % -> % in layer %', id, from_value, to_value, layer
        USING ERRCODE = 'FR409', HINT = 'farrier model --format md lists every edge; intents are how to ask for one.';
END $$;

-- One row at a time, and only for rows that moved: a join of the old rows with the new ones is planned for a handful, and
-- takes a quarter of a million comparisons for a batch.
CREATE FUNCTION farrier.guard_status() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM farrier.edges e
                    WHERE e.kind = 'node' AND e.layer = TG_ARGV[0] AND e.from_value = OLD.status AND e.to_value = NEW.status) THEN
        IF TG_ARGV[0] = 'status' THEN
            PERFORM farrier.refuse_edge(TG_ARGV[0], NEW.id, OLD.status, NEW.status);
        ELSE
            PERFORM farrier.refuse_edge(TG_ARGV[0], NEW.node_id, OLD.status, NEW.status);
        END IF;
    END IF;
    RETURN NULL;
END $$;
CREATE FUNCTION farrier.guard_management() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM farrier.edges e
                    WHERE e.kind = 'node' AND e.layer = 'management' AND e.from_value = OLD.management AND e.to_value = NEW.management) THEN
        PERFORM farrier.refuse_edge('management', NEW.id, OLD.management, NEW.management);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER guard_status AFTER UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION farrier.guard_status('status');
CREATE TRIGGER guard_management AFTER UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (OLD.management <> NEW.management) EXECUTE FUNCTION farrier.guard_management();
CREATE TRIGGER guard_status AFTER UPDATE ON farrier.node_onboardings
    FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION farrier.guard_status('onboarding');
CREATE TRIGGER guard_status AFTER UPDATE ON farrier.node_decommissions
    FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION farrier.guard_status('decommission');

CREATE FUNCTION farrier.guard_first_values() RETURNS trigger LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    of_layer text;
    begins_as text;
BEGIN
    FOREACH of_layer IN ARRAY TG_ARGV LOOP
        begins_as := to_jsonb(NEW) ->> CASE of_layer WHEN 'management' THEN 'management' ELSE 'status' END;
        IF NOT EXISTS (SELECT FROM initial_values v WHERE v.kind = 'node' AND v.layer = of_layer AND v.value = begins_as) THEN
            RAISE EXCEPTION 'layer % does not begin as %', of_layer, begins_as
                USING ERRCODE = 'FR409', HINT = 'farrier.register_node makes nodes; the handler makes workflows.';
        END IF;
    END LOOP;
    RETURN NULL;
END $$;
CREATE TRIGGER guard_first_values AFTER INSERT ON farrier.nodes
    FOR EACH ROW EXECUTE FUNCTION farrier.guard_first_values('status', 'management');
CREATE TRIGGER guard_first_values AFTER INSERT ON farrier.node_onboardings
    FOR EACH ROW EXECUTE FUNCTION farrier.guard_first_values('onboarding');
CREATE TRIGGER guard_first_values AFTER INSERT ON farrier.node_decommissions
    FOR EACH ROW EXECUTE FUNCTION farrier.guard_first_values('decommission');

-- The pair (node, workflow), looked at when the commit is otherwise whole. The live workflow must be the one the node
-- names, and go with its status; without one, the status must be one that needs none. One that ends must go with the
-- status in the commit that ends it.
CREATE FUNCTION farrier.check_pair(node_id bigint, ended_kind text, ended_status text) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    pair record;
BEGIN
    SELECT n.id, n.status, n.live_workflow_kind, n.live_workflow_id, live.* INTO pair
      FROM farrier.nodes n, LATERAL (
           SELECT count(*) AS how_many, min(w.kind) AS kind, min(w.id) AS workflow_id, min(w.status) AS workflow_status FROM (
                SELECT 'onboarding' AS kind, o.id, o.status FROM farrier.node_onboardings o
                 WHERE o.node_id = n.id AND o.status NOT IN ('completed', 'cancelled', 'reconciled')
                UNION ALL
                SELECT 'decommission', d.id, d.status FROM farrier.node_decommissions d
                 WHERE d.node_id = n.id AND d.status NOT IN ('completed', 'cancelled', 'reconciled')) w) live
     WHERE n.id = check_pair.node_id;
    IF pair.how_many > 1 THEN
        RAISE EXCEPTION 'node % has an onboarding and a decommission live at once', pair.id USING ERRCODE = 'FR409';
    END IF;
    IF (pair.live_workflow_kind, pair.live_workflow_id) IS DISTINCT FROM (pair.kind, pair.workflow_id) THEN
        RAISE EXCEPTION 'node % names % % as its live workflow, live is % %', pair.id,
            coalesce(pair.live_workflow_kind, 'none'), pair.live_workflow_id, coalesce(pair.kind, 'none'), pair.workflow_id
            USING ERRCODE = 'FR409';
    END IF;
    IF NOT EXISTS (
        SELECT FROM farrier.workflow_mapping m
         WHERE m.kind = coalesce(pair.kind, 'none') AND m.workflow_status = coalesce(pair.workflow_status, 'none')
           AND m.node_status = pair.status) THEN
        RAISE EXCEPTION 'node % is %, which does not go with %', pair.id, pair.status,
            coalesce(format('its %s that is %s', pair.kind, pair.workflow_status), 'no live workflow')
            USING ERRCODE = 'FR409';
    END IF;
    IF ended_kind IS NOT NULL AND NOT EXISTS (
        SELECT FROM farrier.workflow_mapping m WHERE m.kind = ended_kind AND m.workflow_status = ended_status AND m.node_status = pair.status) THEN
        RAISE EXCEPTION 'node % is %, which does not go with its % ending %', pair.id, pair.status, ended_kind, ended_status
            USING ERRCODE = 'FR409';
    END IF;
END $$;

-- As the owner: before PostgreSQL 18 a deferred trigger runs as whoever commits, who may have no right to look.
CREATE FUNCTION farrier.check_node_pair() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    PERFORM farrier.check_pair(NEW.id, NULL, NULL);
    RETURN NULL;
END $$;
CREATE FUNCTION farrier.check_workflow_pair() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        PERFORM farrier.check_pair(OLD.node_id, NULL, NULL);
    ELSIF NEW.status IN ('completed', 'cancelled', 'reconciled') THEN
        PERFORM farrier.check_pair(NEW.node_id, TG_ARGV[0], NEW.status);
    ELSE
        PERFORM farrier.check_pair(NEW.node_id, NULL, NULL);
    END IF;
    RETURN NULL;
END $$;
-- A trigger for each operation, because a condition on OLD does not go with INSERT.
CREATE CONSTRAINT TRIGGER check_pair_insert AFTER INSERT ON farrier.nodes
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION farrier.check_node_pair();
CREATE CONSTRAINT TRIGGER check_pair AFTER UPDATE ON farrier.nodes
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.live_workflow_id IS DISTINCT FROM NEW.live_workflow_id OR OLD.live_workflow_kind IS DISTINCT FROM NEW.live_workflow_kind
          OR OLD.status <> NEW.status)
    EXECUTE FUNCTION farrier.check_node_pair();
CREATE CONSTRAINT TRIGGER check_pair_insert AFTER INSERT ON farrier.node_onboardings
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION farrier.check_workflow_pair('onboarding');
CREATE CONSTRAINT TRIGGER check_pair AFTER UPDATE ON farrier.node_onboardings
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.status <> NEW.status)
    EXECUTE FUNCTION farrier.check_workflow_pair('onboarding');
CREATE CONSTRAINT TRIGGER check_pair_insert AFTER INSERT ON farrier.node_decommissions
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION farrier.check_workflow_pair('decommission');
CREATE CONSTRAINT TRIGGER check_pair AFTER UPDATE ON farrier.node_decommissions
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.status <> NEW.status)
    EXECUTE FUNCTION farrier.check_workflow_pair('decommission');
CREATE CONSTRAINT TRIGGER check_pair_delete AFTER DELETE ON farrier.node_onboardings
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION farrier.check_workflow_pair('onboarding');
CREATE CONSTRAINT TRIGGER check_pair_delete AFTER DELETE ON farrier.node_decommissions
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION farrier.check_workflow_pair('decommission');

-- A deleted node's row keeps its name and MAAS id, and nothing that names its machine or opens it. Triggers clear the rest, so a
-- row that an operator marks as deleted with an UPDATE is no exception.
CREATE FUNCTION farrier.forget_machine() RETURNS trigger
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    NEW.bmc_address := NULL;
    NEW.bmc_credential := NULL;
    NEW.bmc := '{}';
    NEW.labels := '{}';
    RETURN NEW;
END $$;
-- By its name before place_bmc, which follows the address.
CREATE TRIGGER forget_machine BEFORE UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (NEW.status = 'deleted') EXECUTE FUNCTION farrier.forget_machine();

CREATE FUNCTION farrier.forget_keys() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    DELETE FROM node_macs m WHERE m.node_id = NEW.id;
    DELETE FROM node_agents a WHERE a.node_id = NEW.id;
    UPDATE bootstrap_tokens t SET revoked_at = farrier.now() WHERE t.node_id = NEW.id AND t.used_at IS NULL AND t.revoked_at IS NULL;
    -- Failures, reasons and results quote serial numbers and addresses.
    UPDATE intents i SET params = i.params - '{address,credential,macs,labels}'::text[], reason = NULL
     WHERE i.node_id = NEW.id AND (i.params ?| '{address,credential,macs,labels}' OR i.reason IS NOT NULL);
    UPDATE node_onboardings o SET failure_detail = NULL WHERE o.node_id = NEW.id AND o.failure_detail IS NOT NULL;
    UPDATE node_decommissions d SET failure_detail = NULL WHERE d.node_id = NEW.id AND d.failure_detail IS NOT NULL;
    -- Those that agents and workers reported. A task that its agent finishes right now has none yet, and is not waited for.
    UPDATE node_tasks t SET result = NULL WHERE t.node_id = NEW.id AND t.status IN ('succeeded', 'failed') AND t.result IS NOT NULL;
    RETURN NULL;
END $$;
-- At COMMIT, because the commit that deletes the node answers its intents and ends its tasks after it has written the node.
CREATE CONSTRAINT TRIGGER forget_keys AFTER UPDATE ON farrier.nodes
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.status = 'deleted' AND OLD.status <> 'deleted') EXECUTE FUNCTION farrier.forget_keys();
