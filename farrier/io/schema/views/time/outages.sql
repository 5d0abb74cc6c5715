-- Times in which neither farrier nor a client could write: the last hundred gaps between pulses, and the gap that has not ended,
-- because the first load after an outage may come before the first pulse.
CREATE OR REPLACE VIEW farrier.outages AS
(SELECT g.until - g.lasted AS began_at, g.until AS ended_at FROM farrier.pulse_gaps g ORDER BY g.until DESC LIMIT 100)
UNION ALL
SELECT p.at, farrier.now() FROM farrier.pulse p WHERE farrier.now() - p.at > interval '10 seconds';
