-- Renews the door $1 of agents; returns whether it is listed.
SELECT farrier.pulse_agents_door($1, $2, $3, $4)
