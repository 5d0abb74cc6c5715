-- Registers and enqueues a node, and returns its id.
SELECT farrier.register_node(name => $1, bmc_address => $2, bmc_credential => $3, bootstrap_token => $4, bootstrap_ttl => $5,
                             api_version => $6, details => $7::jsonb, requested_by => $8)
