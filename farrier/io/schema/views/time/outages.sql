-- Times in which agents may not have been able to report: the gaps between pulses, and the gap that has not ended, because the first
-- load after an outage may come before the first pulse.
CREATE OR REPLACE VIEW farrier.outages AS
SELECT g.until, g.lasted FROM farrier.pulse_gaps g
UNION ALL
SELECT farrier.now(), farrier.now() - p.at FROM farrier.pulse p WHERE farrier.now() - p.at > interval '10 seconds';
