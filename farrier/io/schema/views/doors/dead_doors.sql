-- Why the silence of agents that use doors does not count now, and since when: pulse is doors if no door of agents pulses, and agents
-- if doors pulse but reach none of the agents that are expected. No row while the doors are alive.
CREATE OR REPLACE VIEW farrier.dead_doors AS
SELECT p.name AS pulse, p.at AS since FROM farrier.pulse p WHERE p.name <> 'controllers' AND upper(p.gaps) > p.at;
