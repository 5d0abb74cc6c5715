-- Times in which agents may not have been able to report, by the pulse that was lost. The outage of the controllers that has not ended is
-- among them, because the first load after an outage may come before the first pulse.
CREATE OR REPLACE VIEW farrier.outages AS
SELECT p.name AS pulse,
       CASE WHEN p.name = 'controllers' AND farrier.now() - p.at > c.pulse_lost
         THEN p.gaps + tstzmultirange(tstzrange(p.at, farrier.now())) ELSE p.gaps END AS times
  FROM farrier.pulse p CROSS JOIN farrier.constants c;
