-- Times in which agents may not have been able to report, by the pulse that was lost: the last hundred gaps of each pulse, and the gap
-- of the controllers that has not ended, because the first load after an outage may come before the first pulse.
CREATE OR REPLACE VIEW farrier.outages AS
SELECT p.name AS pulse, g.began_at, g.ended_at
  FROM farrier.pulse p CROSS JOIN LATERAL (
       SELECT o.began_at, o.ended_at FROM farrier.pulse_gaps o WHERE o.pulse = p.name ORDER BY o.began_at DESC LIMIT 100) g
UNION ALL
SELECT p.name, p.at, farrier.now() FROM farrier.pulse p
 WHERE p.name = 'controllers' AND farrier.now() - p.at > (SELECT c.pulse_lost FROM farrier.constants c);
