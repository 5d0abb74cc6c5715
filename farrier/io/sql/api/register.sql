-- Registers a node, which wakes it, and returns its id.
SELECT farrier.register_node(name => $1, bmc_address => $2, bmc_credential => $3, macs => $4, labels => $5::jsonb,
                             site => $6, model => $7, maas_id => $8, agentless => $9, auto_manage => $10,
                             bootstrap_token => $11, bootstrap_ttl => $12, api_version => $13)
