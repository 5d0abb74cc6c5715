-- Records heartbeats of many agents in one statement, and returns a verdict for each.
SELECT place, verdict, reason, wait, facts, claim FROM farrier.take_beats($1::jsonb, $2)
