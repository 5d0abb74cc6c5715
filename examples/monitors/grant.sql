-- Lets the monitor `dcgm` state conditions of GPUs, at all sites. To be run by the owner of the schema.
SELECT farrier.grant_monitor('dcgm', ids => '{gpu/*, dcgm/*}', effect => 'quarantine', lasts => '15 minutes', brake_share => 0.05);
