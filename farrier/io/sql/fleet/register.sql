-- Registers nodes as another service would: one function call each, all in one transaction.
SELECT farrier.register_node(name => r.name, bmc_address => r.bmc_address, bmc_credential => r.bmc_credential,
                             macs => r.macs, labels => r.labels, site => r.site, model => r.model,
                             bootstrap_token => r.token)
  FROM jsonb_to_recordset($1::jsonb)
       AS r (name text, token text, bmc_address text, bmc_credential text, macs text[], labels jsonb, site text, model text)
