-- Departures that count now: nodes that left service within brake_window, and held nodes that tried to leave within three times
-- brake_retry. A held node that has recovered does not try again, so it soon stops counting.
CREATE OR REPLACE VIEW farrier.departing AS
SELECT d.site, d.source, d.node, d.at, d.held
  FROM farrier.departures d
 CROSS JOIN farrier.settings s
 CROSS JOIN farrier.constants c
 WHERE d.at > farrier.now() - CASE WHEN d.held THEN 3 * c.brake_retry ELSE s.brake_window END;
