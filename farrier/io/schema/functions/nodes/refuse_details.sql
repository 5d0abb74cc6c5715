-- Refuses values that no node may be registered with (FR400): a BMC address and a credential by the rules of intent set_bmc,
-- labels by json_fault, a site by the rules of the names of site files, and a model.
CREATE OR REPLACE FUNCTION farrier.refuse_details(bmc_address text, bmc_credential text, labels jsonb, site text, model text) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    rules jsonb := (SELECT a.params -> 'fields' FROM actions a WHERE a.action = 'set_bmc');
    fault text := coalesce('bmc_address ' || param_fault(rules -> 'address', to_jsonb(bmc_address)),
                           'bmc_credential ' || param_fault(rules -> 'credential', to_jsonb(bmc_credential)),
                           'labels ' || json_fault(labels, 16384));
BEGIN
    IF fault IS NOT NULL THEN RAISE EXCEPTION '%', fault USING ERRCODE = 'FR400'; END IF;
    IF site !~ '\A[A-Za-z0-9][A-Za-z0-9._-]*\Z' OR char_length(site) > 63 THEN
        RAISE EXCEPTION 'site % is not usable: 1 to 63 letters, digits, dots, dashes and underscores, the first a letter or digit',
            quote_literal(left(site, 80)) USING ERRCODE = 'FR400', HINT = 'It is the name of the site''s file, without .toml.';
    END IF;
    IF char_length(model) NOT BETWEEN 1 AND 100 OR model ~ '[\u0001-\u001f\u007f-\u009f]' THEN
        RAISE EXCEPTION 'model % is not usable: 1 to 100 characters, of which none is a control character', quote_literal(left(model, 120))
            USING ERRCODE = 'FR400';
    END IF;
END $$;
