-- Registers and enqueues nodes, and returns their ids.
SELECT farrier.register_node(name => r.name, bmc_address => r.bmc_address, bmc_credential => r.bmc_credential,
                             bootstrap_token => r.bootstrap_token, bootstrap_ttl => r.bootstrap_ttl, api_version => r.api_version,
                             details => r.details)
  FROM jsonb_to_recordset($1::jsonb)
       AS r (name text, bmc_address text, bmc_credential text, bootstrap_token text, bootstrap_ttl interval, api_version integer,
             details jsonb)
