-- Registers a node, enqueues it, and returns its id. The onboarding writes to the BMC or to MAAS only after an intent
-- has given it a mode. With bootstrap_token there is no onboarding yet: the node waits for its agent. `details` has
-- values by name, as in intent `set`, and takes precedence over the parameter of the same name. History names requested_by, or else the
-- login. api_version is only checked: all supported versions of the API register alike. FR400 for malformed values, FR406 for the
-- version, unique_violation for a name, MAAS id, BMC, MAC address or token that another node has.
CREATE OR REPLACE FUNCTION farrier.register_node(
    name text, bmc_address text DEFAULT NULL, bmc_credential text DEFAULT NULL, macs text[] DEFAULT '{}',
    labels jsonb DEFAULT '{}', site text DEFAULT NULL, model text DEFAULT NULL, maas_id text DEFAULT NULL,
    agentless boolean DEFAULT false, auto_manage boolean DEFAULT true, bootstrap_token text DEFAULT NULL,
    bootstrap_ttl interval DEFAULT '72 hours', api_version integer DEFAULT NULL, details jsonb DEFAULT '{}',
    requested_by text DEFAULT NULL) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    new_id bigint;
    first_status text := CASE WHEN bootstrap_token IS NULL THEN 'enrolling' ELSE 'bootstrap_issued' END;
    first_management text := CASE WHEN bmc_address IS NULL AND bmc_credential IS NULL THEN 'unmanaged' ELSE 'enroll' END;
    onboarding bigint;
    violated text;
    bmc_rules jsonb := (SELECT a.params -> 'fields' FROM kind_actions a WHERE a.kind = 'node' AND a.action = 'set_bmc');
    fault text := coalesce('bmc_address ' || param_fault(bmc_rules -> 'address', to_jsonb(bmc_address)),
                           'bmc_credential ' || param_fault(bmc_rules -> 'credential', to_jsonb(bmc_credential)),
                           CASE WHEN char_length(requested_by) NOT BETWEEN 1 AND 255 THEN 'requested_by must have 1 to 255 characters, or be null' END);
    given jsonb := jsonb_strip_nulls(jsonb_build_object('site', site, 'model', model, 'maas_id', maas_id, 'macs', macs))
        || jsonb_build_object('labels', labels, 'agentless', agentless, 'auto_manage', auto_manage) || coalesce(details, '{}');
    other text;
BEGIN
    PERFORM check_bootstrap_token(bootstrap_token);
    PERFORM check_ttl(bootstrap_ttl);
    PERFORM refuse_version(register_node.api_version);
    IF fault IS NOT NULL THEN RAISE EXCEPTION '%', fault USING ERRCODE = 'FR400'; END IF;
    PERFORM refuse_details(given);
    -- The columns are those that the details name.
    EXECUTE (SELECT format('INSERT INTO nodes (name, bmc_address, bmc_credential, status, management, %1$s)
                            SELECT $1, $2, $3, $4, $5, %1$s FROM jsonb_populate_record(NULL::nodes, $6) RETURNING id',
                           string_agg(quote_ident(k), ', ')) FROM jsonb_object_keys(given - 'macs') k)
       INTO new_id USING name, bmc_address, bmc_credential, first_status, first_management, given;
    INSERT INTO node_macs (mac, node_id) SELECT DISTINCT a, new_id FROM unnest(read_macs(given -> 'macs')) a;
    IF bootstrap_token IS NULL THEN
        INSERT INTO node_onboardings (node_id) VALUES (new_id) RETURNING id INTO onboarding;
        UPDATE nodes SET live_workflow_kind = 'onboarding', live_workflow_id = onboarding WHERE id = new_id;
    ELSE
        INSERT INTO bootstrap_tokens (hash, node_id, expires_at) VALUES (digest(bootstrap_token), new_id, farrier.now() + bootstrap_ttl);
    END IF;
    PERFORM record_beginning('node', to_jsonb(n) || jsonb_build_object('onboarding', o.status), 'register_node',
                             'registered', coalesce(requested_by, session_user))
       FROM nodes n LEFT JOIN node_onboardings o ON o.id = onboarding WHERE n.id = new_id;
    PERFORM enqueue('node', new_id);
    RETURN new_id;
EXCEPTION
    WHEN unique_violation OR exclusion_violation THEN
        GET STACKED DIAGNOSTICS violated = CONSTRAINT_NAME;
        -- Another node has the address, perhaps since a concurrent registration. Its row is visible now, so the error can name it.
        IF violated IN ('node_bmcs_one', 'node_macs_pkey') THEN
            PERFORM refuse_shared(register_node.bmc_address, read_macs(given -> 'macs'));
        END IF;
        IF violated = 'nodes_name' THEN
            RAISE EXCEPTION 'node % is already registered', register_node.name
                USING ERRCODE = 'unique_violation', HINT = 'A name is free again once its node is deleted.';
        ELSIF violated = 'nodes_maas' THEN
            SELECT n.name INTO other FROM nodes n
             WHERE n.site IS NOT DISTINCT FROM given ->> 'site' AND n.maas_id = given ->> 'maas_id' AND n.status <> 'deleted';
            RAISE EXCEPTION 'another node of this site has the same MAAS ID: %', coalesce(other, 'it was just registered')
                USING ERRCODE = 'unique_violation', HINT = 'Give each node its own MAAS ID, or delete the other node first.';
        ELSIF violated = 'bootstrap_tokens_pkey' THEN
            RAISE EXCEPTION 'the bootstrap token of % was used before; a token is valid for one node only', register_node.name
                USING ERRCODE = 'unique_violation';
        END IF;
        RAISE;
    WHEN check_violation OR not_null_violation THEN
        GET STACKED DIAGNOSTICS violated = CONSTRAINT_NAME;
        IF violated = 'node_name_form' OR register_node.name IS NULL THEN
            RAISE EXCEPTION 'node name % is not valid; expected at most 253 letters, digits, dots, dashes and underscores, not only digits',
                coalesce(quote_literal(register_node.name), 'null') USING ERRCODE = 'FR400';
        END IF;
        RAISE;
END $$;
